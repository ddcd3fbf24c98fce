import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { Fork } from '../../../../actors/as2/receiving/fork.ts'

async function* numbers(count: number, pulled: { count: number } = { count: 0 }): AsyncGenerator<Buffer> {
  for (let each = 0; each < count; each++) {
    pulled.count = each + 1
    yield Buffer.from([each])
  }
}

t.test('both readers get every chunk in order, whoever is faster', async (t) => {
  const fork = new Fork(numbers(100))
  const [one, other] = [fork.branch(), fork.branch()]
  const slowly = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of other) {
      await new Promise(setImmediate)
      yield chunk
    }
  }
  const [first, second] = await Promise.all([buffer(one), buffer(slowly())])
  t.same(
    [...first],
    Array.from({ length: 100 }, (_, index) => index),
  )
  t.ok(second.equals(first))
})

t.test('the source is not read further than the slower reader allows', async (t) => {
  const pulled = { count: 0 }
  const fork = new Fork(numbers(100, pulled))
  const [one, other] = [fork.branch(), fork.branch()]
  const reading = buffer(one)
  for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate)
  t.ok(pulled.count < 10, 'most of it waits')
  other.close()
  t.equal((await reading).length, 100, 'a reader that is closed does not hold the other up')
  t.equal(pulled.count, 100)
})

t.test('a failure of the source reaches both, and one from outside, too', async (t) => {
  const failing = async function* (): AsyncGenerator<Buffer> {
    yield* numbers(2)
    throw new Error('gone')
  }
  const broken = new Fork(failing())
  const branches = [broken.branch(), broken.branch()]
  const settled = await Promise.allSettled(branches.map((branch) => buffer(branch)))
  t.match(settled, [{ reason: { message: 'gone' } }, { reason: { message: 'gone' } }])
  t.throws(() => broken.check(), { message: 'gone' })

  const endless = new Fork(
    (async function* (): AsyncGenerator<Buffer> {
      yield Buffer.alloc(1)
      await new Promise(() => undefined)
    })(),
  )
  const reading = buffer(endless.branch())
  endless.fail(new Error('no room'))
  endless.fail(new Error('later'))
  await t.rejects(reading, { message: 'no room' })
})
