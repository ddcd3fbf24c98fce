import t from 'tap'
import { HELP, parseCommand } from '../../api/cli/command.ts'

t.test('waybill settings storage local <directory>', async (t) => {
  t.test('names the directory', async (t) => {
    t.match(parseCommand(['settings', 'storage', 'local', './payloads']), { kind: 'task' })
    t.match(HELP, /settings storage local <directory>/)
  })

  t.test('is a mistake without a directory, or with more than that', async (t) => {
    t.match(parseCommand(['settings', 'storage', 'local']), {
      kind: 'mistake',
      message: /takes: waybill settings storage local <directory>$/,
    })
    for (const words of [
      ['settings'],
      ['settings', 'storage'],
      ['settings', 'storage', 's3'],
      ['setings', 'storage', 'local', 'a'],
    ]) {
      t.same(parseCommand(words), { kind: 'mistake', message: `Unknown command: ${words.join(' ')}` })
    }
    t.match(parseCommand(['settings', 'storage', 'local', 'a', 'b']), { kind: 'mistake' })
    t.match(parseCommand(['settings', 'storage', 'local', 'a', '--force']), { kind: 'mistake' })
  })
})
