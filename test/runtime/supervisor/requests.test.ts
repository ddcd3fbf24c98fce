import t from 'tap'
import { WaybillError } from '../../../runtime/errors.ts'
import { TestSupervisor, eventually } from '../test-supervisor.ts'

t.test('a request is answered by the actor that it names', async (t) => {
  const kernel = new TestSupervisor(t)
  await Promise.all([kernel.run({ name: 'one' }), kernel.run({ name: 'two' })])
  const values = Array.from({ length: 50 }, (_, index) => ({ index, bytes: new Uint8Array([index]) }))
  const replies = await Promise.all(
    values.map((value) => kernel.order(value.index % 2 === 0 ? 'one' : 'two', { kind: 'echo', value })),
  )
  t.same(replies, values)
})

t.test('what the actor throws reaches the asker with its code', async (t) => {
  const kernel = new TestSupervisor(t)
  await kernel.run({ name: 'one' })
  const failure = kernel.order('one', { kind: 'throw', message: 'no such partner' })
  await t.rejects(failure, { code: 'INTERNAL_ERROR', message: 'no such partner' })
  t.type(await failure.catch((error: unknown) => error), WaybillError)
  await t.rejects(kernel.order('one', { kind: 'answer_what_cannot_be_cloned' }), { code: 'INTERNAL_ERROR' })
})

t.test('a body that cannot be cloned is the asker’s own error', async (t) => {
  const kernel = new TestSupervisor(t)
  await kernel.run({ name: 'one' })
  await t.rejects(kernel.order('one', { kind: 'echo', value: () => undefined }), { name: 'DataCloneError' })
  t.equal(await kernel.order('one', { kind: 'echo', value: 1 }), 1)
})

t.test('a request that is not answered in time is rejected, and the actor learns it', async (t) => {
  const kernel = new TestSupervisor(t)
  await kernel.run({ name: 'one' })
  await t.rejects(kernel.order('one', { kind: 'never_answer' }, 10), {
    code: 'INSTANCE_UNAVAILABLE',
    message: 'The instance did not answer within 10 ms',
  })
  const learnt = async (): Promise<boolean> => (await kernel.order('one', { kind: 'was_cancelled' })) === true
  await eventually(learnt, 'the signal of the request fires')
})

t.test('a request ends when its signal fires', async (t) => {
  const kernel = new TestSupervisor(t)
  await kernel.run({ name: 'one' })
  const controller = new AbortController()
  const options = { timeoutMs: 60_000, signal: controller.signal }
  const request = kernel.supervisor.request('obedient', 'one', { kind: 'never_answer' }, options)
  controller.abort(new Error('the client went away'))
  await t.rejects(request, { message: 'the client went away' })
  const late = kernel.supervisor.request('obedient', 'one', { kind: 'never_answer' }, options)
  await t.rejects(late, { message: 'the client went away' })
})

t.test('requests that wait for their reply are bounded', async (t) => {
  const kernel = new TestSupervisor(t, { maxPendingRequests: 2 })
  await kernel.run({ name: 'one' })
  const waiting = [1, 2].map(() => t.rejects(kernel.order('one', { kind: 'never_answer' })))
  await t.rejects(kernel.order('one', { kind: 'echo', value: 1 }), { code: 'INSTANCE_UNAVAILABLE' })
  await kernel.supervisor.stop('obedient', 'one')
  await Promise.all(waiting)
})
