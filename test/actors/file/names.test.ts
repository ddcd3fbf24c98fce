import fc from 'fast-check'
import t from 'tap'
import { numbered, safeName } from '../../../actors/file/names.ts'

void t.test('ordinary names stay as they are', async (t) => {
  for (const name of [
    'invoice.edi',
    'Rechnung Größe 3.pdf',
    'a.b.c',
    'übung',
    'no ending',
    'x'.repeat(200),
  ]) {
    t.equal(safeName(name, 'fallback'), name.normalize('NFC'))
  }
})

void t.test('no name leads out of its directory, hides itself or names a device', async (t) => {
  const cases: readonly (readonly [string, string])[] = [
    ['../../etc/passwd', '___.._etc_passwd'],
    ['/etc/passwd', '_etc_passwd'],
    ['C:\\boot.ini', 'C__boot.ini'],
    ['a\0b', 'a_b'],
    ['.hidden', '_hidden'],
    ['invoice\u202Efdp.exe', 'invoice_fdp.exe'],
    ['line\nbreak', 'line_break'],
    ['NUL', '_NUL'],
    ['com1.txt', '_com1.txt'],
    ['trailing. ', 'trailing__'],
  ]
  for (const [name, expected] of cases) t.equal(safeName(name, 'fallback'), expected, JSON.stringify(name))
  for (const name of ['', '.', '..', '...', '///'])
    t.equal(safeName(name, 'fallback'), 'fallback', JSON.stringify(name))
})

void t.test('whatever comes in, one safe name of at most 255 bytes comes out', async (t) => {
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 600 }), (name) => {
        const safe = numbered(safeName(name, 'fallback'), 9_999)
        return (
          safe !== '' &&
          !safe.startsWith('.') &&
          !/[/\\\0]/.test(safe) &&
          Buffer.byteLength(safe) <= 255 &&
          safeName(safeName(name, 'fallback'), 'fallback') === safeName(name, 'fallback')
        )
      }),
    ),
  )
})

void t.test('a number stands before the ending', async (t) => {
  t.equal(numbered('invoice.edi', 2), 'invoice (2).edi')
  t.equal(numbered('archive.tar.gz', 3), 'archive.tar (3).gz')
  t.equal(numbered('noending', 2), 'noending (2)')
})
