import { once } from 'node:events'
import t from 'tap'
import { runScript } from '../support/processes.ts'

t.setTimeout(120_000)

t.test('a process ends with its exit code also while a thread is within native code', async (t) => {
  const { child, line } = runScript(t, 'spinning-child.ts', [])
  t.equal(await line(), 'ready')
  child.kill('SIGTERM')
  const [code] = (await once(child, 'exit')) as [number | null]
  t.equal(code, 7)
})
