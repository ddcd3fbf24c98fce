import fc from 'fast-check'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Publisher } from '../../../actors/file/publish.ts'
import { fillPath } from '../../../actors/file/pattern.ts'
import { recordedFileName } from '../../../storage/exchange/file-name.ts'
import { temporaryDirectory } from '../../support/processes.ts'
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
    ['-rf.edi', '_rf.edi'],
    ['con .txt', '_con .txt'],
    ['LPT¹', '_LPT¹'],
    ['a\u2028b', 'a_b'],
    ['soft\u00adhyphen', 'soft_hyphen'],
    ['\ud800lone', '\ufffdlone'],
  ]
  for (const [name, expected] of cases)
    t.equal(safeName(name, 'fallback'), expected, encodeURIComponent(name.toWellFormed()))
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

void t.test('a name whose spelling needs the marks that join letters keeps them', async (t) => {
  t.equal(
    safeName('\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645.edi', 'fallback').includes('\u200c'),
    true,
  )
})

void t.test('a name that is cut is cut between its characters, and keeps its ending', async (t) => {
  for (const character of ['x', 'ü', '日', '😀']) {
    const safe = safeName(`${character.repeat(300)}.edi`, 'fallback')
    t.ok(Buffer.byteLength(safe) <= 239)
    t.match(safe, new RegExp(`^(?:${character})+\\.edi$`, 'u'))
  }
})

/** What names are made of that are meant to do harm. */
const hostile = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        '..',
        '.',
        '/',
        '\\',
        '\0',
        '\n',
        '\r',
        '\x1b[2J',
        ' ',
        ':',
        'C:',
        '~',
        '-',
        '--',
        '$(id)',
        '`',
      ),
      fc.constantFrom(
        'CON',
        'nul',
        'COM1',
        'lpt9',
        '.edi',
        '.tmp',
        '.waybill',
        '*',
        '?',
        '|',
        '<',
        '>',
        '"',
        "'",
      ),
      fc.constantFrom(
        '\u202e',
        '\u2066',
        '\u200f',
        '\ufeff',
        '\ud800',
        '\udc00',
        '%2e%2e%2f',
        '{to}',
        '{id}',
        'etc',
      ),
      fc.string({ unit: 'binary', maxLength: 5 }),
      fc.constantFrom('x'.repeat(300), 'é'.repeat(150), '😀'.repeat(80)),
    ),
    { maxLength: 8 },
  )
  .map((parts) => parts.join(''))

void t.test('a message of any name and parties is one file within the base directory', async (t) => {
  t.setTimeout(300_000)
  const base = await temporaryDirectory(t)
  const publisher = Publisher.open(join(base, 'in', 'box'))
  let deliveryId = 0
  await fc.assert(
    fc.asyncProperty(hostile, hostile, hostile, async (from, to, name) => {
      deliveryId += 1
      const recorded = recordedFileName(name, 'message-id')
      const path = fillPath('{from}/{to}/{filename}', {
        from: safeName(from, 'unknown'),
        to: safeName(to, 'unknown'),
        filename: safeName(recorded, 'message-id'),
        id: 'message-id',
        date: '2026-01-01',
      })
      const publication = {
        deliveryId,
        fencing: 1,
        file: null,
        isRepeat: false,
        path,
        onConflict: 'rename',
      } as const
      const draft = await publisher.begin(publication)
      await draft?.write(Buffer.from(String(deliveryId)))
      await draft?.publish()
      publisher.finished(deliveryId)
    }),
    { numRuns: 150 },
  )
  t.same(await readdir(base), ['in'])
  t.same(await readdir(join(base, 'in')), ['box'])
  const all = await readdir(join(base, 'in', 'box'), { recursive: true, withFileTypes: true })
  const files = all.filter((entry) => entry.isFile())
  t.equal(files.length, deliveryId, 'each is a file of its own: nothing was written over')
  const contents = await Promise.all(
    files.map(({ parentPath, name }) => readFile(join(parentPath, name), 'utf8')),
  )
  t.equal(new Set(contents).size, deliveryId)
  for (const { name, parentPath } of files) {
    t.notMatch(name, /[\p{Cc}\u202a-\u202e\u2066-\u2069<>:"/\\|?*]|^[-. ]|[. ]$/u)
    t.equal(parentPath.slice(join(base, 'in', 'box').length + 1).split('/').length, 2)
  }
})

void t.test('what records show of a name is one line of one name, whatever it was', async (t) => {
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.oneof(hostile, fc.string({ unit: 'binary', maxLength: 400 })), (name) => {
        const recorded = recordedFileName(name, 'fallback')
        return (
          recorded !== '' &&
          recorded.isWellFormed() &&
          !/[/\\\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u.test(recorded) &&
          !/^\.{1,2}$/.test(recorded) &&
          Buffer.byteLength(recorded) <= 255
        )
      }),
    ),
  )
})
