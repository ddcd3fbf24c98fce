import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

const PROGRAM = fileURLToPath(new URL('./log-program.ts', import.meta.url))

t.test(
  'a thread writes its lines to standard error itself, with its bindings, and none is lost',
  async (t) => {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [PROGRAM])
    const lines = stderr
      .trim()
      .split('\n')
      .map((line): unknown => JSON.parse(line))
    t.match(lines, [
      { level: 60, type: 'obedient', name: 'one', msg: 'said by the thread' },
      { level: 50, type: 'obedient', name: 'one', reason: 'The thread exited with code 3' },
    ])
    t.match(lines[0], { time: /^\d{4}-\d\d-\d\dT/ })
    t.equal(stdout, '')
  },
)
