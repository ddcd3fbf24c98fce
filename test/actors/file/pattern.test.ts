import fc from 'fast-check'
import t from 'tap'
import { fillPath, nameMatcher, pathReader } from '../../../actors/file/pattern.ts'

void t.test('the poller reads the parties out of a path', async (t) => {
  t.match(pathReader('{to}/{filename}')('globex/invoice.edi'), { to: 'globex', filename: 'invoice.edi' })
  t.match(pathReader('{from}/out/{to}/{filename}')('acme/out/globex/a b.edi'), { from: 'acme', to: 'globex' })
  t.match(pathReader('{to}-{filename}')('globex-7.edi'), { to: 'globex', filename: '7.edi' })
  t.equal(pathReader('{to}/{filename}')('deep/er/invoice.edi'), null)
  t.equal(pathReader('a.b/{filename}')('aXb/x'), null, 'a dot is a dot')
  t.equal(
    pathReader('{to}/{to}-{filename}')('globex/other-x'),
    null,
    'a place that occurs twice says the same twice',
  )
})

void t.test('what the writer fills in, the poller reads back', async (t) => {
  const name = fc.stringMatching(/^[a-z0-9_]{1,20}$/)
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(name, name, name, (from, to, filename) => {
        const pattern = '{from}/{to}/{filename}'
        const path = fillPath(pattern, { from, to, filename, id: 'id', date: '2026-01-01' })
        const read = pathReader(pattern)(path)
        return read?.from === from && read.to === to && read.filename === filename
      }),
    ),
  )
})

void t.test('a value that looks like a place is not filled in again', async (t) => {
  const values = { from: '{to}', to: 'globex', filename: '{id}', id: '7', date: '2026-01-01' }
  t.equal(fillPath('{from}/{filename}', values), '{to}/{id}')
})

void t.test('file patterns know * and ?, and *.* is every file', async (t) => {
  t.ok(nameMatcher('*.*')('no-ending'))
  t.ok(nameMatcher('*.edi')('a.b.edi'))
  t.notOk(nameMatcher('*.edi')('a.edi.tmp'))
  t.ok(nameMatcher('in?oice*')('invoice-7'))
  t.notOk(nameMatcher('[a].edi')('a.edi'))
  t.ok(nameMatcher('[a].edi')('[a].edi'))
})

/** The plain meaning of a file pattern, however long it takes. */
function means(pattern: string, name: string): boolean {
  if (pattern === '') return name === ''
  const [first, rest] = [pattern[0], pattern.slice(1)]
  if (first === '*') return means(rest, name) || (name !== '' && means(pattern, name.slice(1)))
  return name !== '' && (first === '?' || first === name[0]) && means(rest, name.slice(1))
}

void t.test('a file pattern means what it says, however its stars lie', async (t) => {
  const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?', '.'), maxLength: 8 })
  const name = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 8 })
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(
        pattern,
        name,
        (each, text) => each === '*.*' || nameMatcher(each)(text) === means(each, text),
      ),
      { numRuns: 2_000 },
    ),
  )
  t.ok(nameMatcher('?.edi')('😀.edi'), 'a character is one, however it is encoded')
})

void t.test('no pattern takes long, whatever the name is', async (t) => {
  // With an expression this takes longer than the universe is old.
  const matches = nameMatcher(`${'*a'.repeat(99)}b`)
  for (let index = 0; index < 1_000; index += 1) t.notOk(matches('a'.repeat(255)) && 'it ends with b')
})
