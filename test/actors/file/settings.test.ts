import t from 'tap'
import { filePollerSettings } from '../../../actors/file/settings.ts'

const refused = (changes: Record<string, string>): string[] => {
  const settings = {
    base_directory: '/data/out',
    processed_directory: '/data/done',
    from: 'acme',
    ...changes,
  }
  const parsed = filePollerSettings.safeParse(settings)
  return parsed.success ? [] : parsed.error.issues.map(({ path }) => path.join('.'))
}

void t.test('files are not moved to where they would be found again', async (t) => {
  t.same(refused({}), [])
  for (const directory of ['/data/out', '/data/out/', '/data/x/../out', '/data', '/']) {
    t.same(refused({ processed_directory: directory }), ['processed_directory'], directory)
    t.same(refused({ error_directory: directory }), ['error_directory'], directory)
  }
  t.same(refused({ base_directory: './out', processed_directory: 'out' }), ['processed_directory'])
  for (const directory of ['/data/out/done', '/data/outer', '/data/out/..done'])
    t.same(refused({ processed_directory: directory }), [], directory)
})
