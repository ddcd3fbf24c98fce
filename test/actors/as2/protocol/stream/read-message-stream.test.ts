import { createHash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { assertSame } from './both-readers.ts'
import { anyDamage, make, noDamage, recipes } from './made-messages.ts'
import type { Form, Layer } from './made-messages.ts'

t.setTimeout(300_000)

const chunking = fc.oneof(
  fc.constant([1]),
  fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 20 }),
  fc.constant([100_000]),
)

t.test('A message that streams says what it says in memory, however it comes in', async (t) => {
  let taken = 0
  const same = fc.asyncProperty(recipes(noDamage), chunking, async (recipe, chunks) => {
    const { content } = await assertSame(await make(recipe), chunks)
    if (content !== null) taken++
  })
  await fc.assert(same, { numRuns: 400, seed: 4_130 })
  t.ok(taken > 40, `${taken} of them are taken`)
})

t.test('A broken message is refused for the same reason while it streams as it is in memory', async (t) => {
  let refused = 0
  const same = fc.asyncProperty(recipes(anyDamage), chunking, async (recipe, chunks) => {
    const { content } = await assertSame(await make(recipe), chunks)
    if (content === null) refused++
  })
  await fc.assert(same, { numRuns: 600, seed: 4_130 })
  t.ok(refused > 200, `${refused} of them are refused`)
})

t.test('Content in many small pieces is taken, in memory as while it streams', async () => {
  const layers = fc.constantFrom<readonly Layer[]>(
    [{ kind: 'opaque' }],
    [{ kind: 'compressed' }],
    [{ kind: 'encrypted', algorithm: 'AES128-CBC', oaep: false }],
    [
      { kind: 'detached', micalg: 'sha-256', by: 'sender', pss: false },
      { kind: 'encrypted', algorithm: 'AES256-GCM', oaep: false },
    ],
    [{ kind: 'opaque' }, { kind: 'encrypted', algorithm: 'AES128-CBC', oaep: false }],
  )
  const pieces = fc.record({ pieceBytes: fc.integer({ min: 1, max: 4 }), nested: fc.boolean() })
  const sizeBytes = fc.integer({ min: 40_000, max: 80_000 })
  const same = fc.asyncProperty(layers, pieces, sizeBytes, async (kinds, { pieceBytes, nested }, bytes) => {
    const content = incompressible(bytes)
    const form: Form = { pieceBytes, nested, encoding: 'binary', damage: null }
    const message = await make({
      content,
      contentHeaders: [['Content-Type', 'application/edifact']],
      layers: kinds.map((layer) => [layer, form] as const),
      request: [],
      maxContentBytes: 100_000,
      require: { signed: false, encrypted: false },
    })
    const outcome = await assertSame(message, [65_536])
    return outcome.content?.equals(content) === true
  })
  await fc.assert(same, { numRuns: 30, seed: 4_130 })
})

function incompressible(bytes: number): Buffer {
  return createHash('shake256', { outputLength: bytes }).digest()
}
