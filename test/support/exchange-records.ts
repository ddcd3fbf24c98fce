import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestApi } from './api.ts'
import type { Teardown } from './database.ts'

/**
 * An organization, partners, two file writers as targets and a poller as the source of routes. Answers the directory
 * in which each target has one of its own name.
 */
export async function exchangeRecords(t: Teardown, { client }: TestApi): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'waybill-test-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  await client.create('/organizations', { name: 'acme' })
  for (const name of ['globex', 'initech', 'umbrella']) await client.create('/partners', { name })
  for (const name of ['inner', 'outer']) {
    await client.create('/plugins/configs?type=file-writer', { name, base_directory: join(directory, name) })
  }
  await client.create('/plugins/configs?type=file-poller', {
    name: 'poller',
    from: 'acme',
    base_directory: join(directory, 'outbox'),
    processed_directory: join(directory, 'processed'),
    error_directory: join(directory, 'refused'),
  })
  return directory
}
