import { z } from 'zod'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { timestamp } from '../../runtime/endpoint/paging.ts'
import { PROBE_STEPS } from '../../storage/payloads/probe.ts'
import type { StorageTest } from '../../storage/payloads/storage-test.ts'
import type { SavedSettings } from '../../storage/settings/saved-settings.ts'
import {
  settingsRules,
  settingsSchema,
  valuesOf,
  type StoredSettings,
} from '../../storage/settings/settings.ts'
import {
  isSameStorage,
  storageOf,
  storageSettings,
  type StorageSettings,
} from '../../storage/settings/storage-settings.ts'

/** `/settings`: the one record of the operator's settings. */

export interface SettingsServices {
  readonly settings: SavedSettings
  /** What this process was started with. */
  readonly storageInUse: StorageSettings
  readonly storageTest: StorageTest
}

const tag = 'Settings'
const storage = z
  .object(storageSettings)
  .meta({ id: 'Storage', description: 'The storage properties of the settings.' })

const record = z
  .object({
    ...settingsSchema.shape,
    updated_at: timestamp.describe('When a setting was last changed.'),
    storage_in_use: storage.describe(
      'The storage that the answering process was started with: every property as it was saved then.',
    ),
    restart_needed: z
      .boolean()
      .describe(
        'Whether the saved storage is another one than that in use. Only what the backend uses counts: with local storage saved and in use, another bucket makes no difference, nor does another way to write the same directory.',
      ),
  })
  .meta({ id: 'Settings', description: 'The settings of the service, saved and in use.' })

const testResult = z
  .object({
    ok: z.boolean().describe('Whether the storage can be used.'),
    storage: storage.describe('What was tested: the saved storage, not the one in use.'),
    elapsed_ms: z
      .int()
      .min(0)
      .describe('How long the test took, in milliseconds.')
      .meta({ examples: [112] }),
    step: z
      .enum(PROBE_STEPS)
      .optional()
      .describe(
        'Of a failed test, the step that failed: `open` makes the directory or reaches the bucket, `write` stores the probe, `read` reads it back, `compare` compares the bytes, `delete` removes it.',
      ),
    problem: z
      .string()
      .optional()
      .describe('Of a failed test, what is wrong, in words.')
      .meta({ examples: ['The file system is full (ENOSPC: no space left on device, write)'] }),
  })
  .meta({ id: 'StorageTestResult', description: 'How a test of the saved storage went.' })

export function settingsEndpoints(services: SettingsServices): readonly Endpoint[] {
  const { settings, storageInUse } = services
  const answer = { kind: 'data', status: 200, schema: record } as const
  return [
    endpoint({
      method: 'GET',
      path: '/settings',
      operationId: 'getSettings',
      summary: 'Get the settings',
      description:
        'As they are saved. They count from the next start of the process; `storage_in_use` is what this one uses.',
      tag,
      answer: { ...answer, description: 'The settings as they are saved, and the storage in use.' },
      handle: async () => shown(await settings.get(), storageInUse),
    }),
    endpoint({
      method: 'PUT',
      path: '/settings',
      operationId: 'updateSettings',
      summary: 'Update the settings',
      description:
        'A property that is left out keeps its saved value. The settings are read when the process starts: a change takes effect after a restart. A process does not start with a storage that cannot be used, so test it before; the command `waybill settings storage local <directory>` changes the storage of a process that does not start.',
      tag,
      body: { kind: 'update', rules: settingsRules },
      answer: { ...answer, description: 'The settings as they are saved now.' },
      handle: async ({ body, caller }) => shown(await settings.update(body, caller), storageInUse),
    }),
    storageTestEndpoint(services),
  ]
}

function storageTestEndpoint({ settings, storageTest }: SettingsServices): Endpoint {
  return endpoint({
    method: 'POST',
    path: '/settings/storage/test',
    operationId: 'testStorage',
    summary: 'Test the saved storage',
    description:
      'Stores a small probe where the saved settings say, reads it back, compares and deletes it. Nothing is left behind: a directory that is missing is made as a start of the process would make it, and removed again. The answer comes within 10 seconds; a storage that hangs has failed then. With S3 storage the step `open` reaches the bucket with the credentials of the environment of the process; the problem says what is refused, such as a bucket that does not exist, and never holds credentials.',
    tag,
    answer: { kind: 'data', status: 200, schema: testResult, description: 'The result of the test.' },
    handle: async () => {
      const saved = storageOf(await settings.get())
      const startedAt = performance.now()
      const tested = await storageTest.run(saved)
      const result = tested.ok ? tested : { ok: false, step: tested.step, problem: tested.problem }
      return { ...result, storage: saved, elapsed_ms: Math.round(performance.now() - startedAt) }
    },
  })
}

function shown(stored: StoredSettings, storageInUse: StorageSettings) {
  return {
    ...valuesOf(stored),
    updated_at: stored.updated_at.toISOString(),
    storage_in_use: storageInUse,
    restart_needed: !isSameStorage(stored, storageInUse),
  }
}
