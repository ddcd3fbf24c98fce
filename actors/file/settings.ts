import { resolve } from 'node:path'
import { z } from 'zod'
import { recordName } from '../../runtime/endpoint/record-rules.ts'
import {
  checkRetryWaits,
  maxConcurrentDeliveries,
  retrySettings,
} from '../../storage/plugins/target-settings.ts'
import { isWithin } from './within.ts'

/** The settings of the file plugin types. */

const NO_CONTROLS = /^\P{Cc}*$/u
const directory = z
  .string()
  .min(1)
  .max(1000)
  .regex(NO_CONTROLS, { error: 'must not contain control characters' })

/** A relative path with places in braces; no step of it leads out of the base directory. */
function pathPattern(places: readonly string[]) {
  return z
    .string()
    .min(1)
    .max(500)
    .superRefine((pattern, context) => {
      const refusal = refusalOfPattern(pattern, places)
      if (refusal !== null) context.addIssue({ code: 'custom', message: refusal })
    })
}

function refusalOfPattern(pattern: string, places: readonly string[]): string | null {
  // A backslash and a drive lead elsewhere on Windows.
  if (pattern.startsWith('/') || pattern.includes('\\') || /^[a-z]:/i.test(pattern))
    return 'must be a relative path with / between its steps'
  if (!NO_CONTROLS.test(pattern)) return 'must not contain control characters'
  const steps = pattern.split('/')
  if (steps.some((step) => step === '' || step === '.' || step === '..'))
    return 'has a step that is empty, . or ..'
  const unknown = [...pattern.matchAll(/\{([^{}]*)\}/g)]
    .map(([, name = '']) => name)
    .filter((name) => !places.includes(name))
  if (unknown.length > 0)
    return `has the unknown place {${unknown[0]}}; known are ${places.map((name) => `{${name}}`).join(', ')}`
  if (/[{}]/.test(pattern.replaceAll(/\{[^{}]*\}/g, ''))) return 'has a brace without its other one'
  return null
}

const pollerProperties = {
  base_directory: directory
    .describe(
      "Directory that is watched; a relative path begins at the process's working directory. It is made if it is missing.",
    )
    .meta({ examples: ['/srv/waybill/outbox'] }),
  processed_directory: directory
    .describe(
      'Directory that files are moved to when their message is accepted. Not `base_directory` nor one that it lies in. A file system that is mounted here must be there when the instance starts; when it goes away later, files wait for ten minutes.',
    )
    .meta({ examples: ['/srv/waybill/processed'] }),
  error_directory: z
    .string()
    .max(1000)
    .regex(NO_CONTROLS, { error: 'must not contain control characters' })
    .default('')
    .describe('Directory for files that are refused; empty for `error` below the processed directory.')
    .meta({ examples: ['/srv/waybill/refused'] }),
  from: z
    .union([z.literal(''), recordName], { error: 'must be the name of an organization' })
    .default('')
    .describe(
      'Name of the organization that sends the files. Required unless the path pattern has `{from}`; where both are there, the path decides.',
    )
    .meta({ examples: ['acme'] }),
  path_pattern: pathPattern(['from', 'to', 'filename'])
    .default('{to}/{filename}')
    .describe(
      'Where files lie below the base directory. It has the place `{to}`, may have `{from}`, and ends with `{filename}`; a place stands for one name.',
    )
    .meta({ examples: ['{to}/{filename}', '{from}/{to}/out/{filename}'] }),
  file_pattern: z
    .string()
    .min(1)
    .max(200)
    .regex(/^[^/\\\p{Cc}]*$/u, { error: 'must be the pattern of a name, without / or \\' })
    .default('*.*')
    .describe('Names that are taken: `*` is any text, `?` one character, `*.*` every name.')
    .meta({ examples: ['*.edi'] }),
  polling_interval: z
    .int()
    .min(1)
    .max(86_400)
    .default(5)
    .describe('Seconds between two looks into the directory.')
    .meta({ examples: [5] }),
  settle_seconds: z
    .int()
    .min(0)
    .max(3600)
    .default(2)
    .describe("Seconds that a file's size must stand still before it is taken.")
    .meta({ examples: [2] }),
}

export const filePollerSettings = z
  .object(pollerProperties)
  .superRefine((settings, context) => {
    const { from, path_pattern } = settings
    const refuse = (property: string, message: string): void =>
      context.addIssue({ code: 'custom', path: [property], message })
    if (from === '' && !path_pattern.includes('{from}'))
      refuse('from', 'is required unless path_pattern has {from}')
    if (!path_pattern.includes('{to}')) refuse('path_pattern', 'must have the place {to}')
    if (!path_pattern.endsWith('{filename}')) refuse('path_pattern', 'must end with the place {filename}')
    // What is moved there would be found, and taken in, again and again.
    const base = resolve(settings.base_directory)
    for (const property of ['processed_directory', 'error_directory'] as const) {
      const target = settings[property]
      if (target !== '' && isWithin(base, resolve(target)))
        refuse(property, 'must not be base_directory nor a directory that base_directory lies in')
    }
  })
  .describe('Takes files in from a directory that it looks into again and again.')

export type FilePollerSettings = z.output<typeof filePollerSettings>

export const fileWriterSettings = z
  .object({
    base_directory: directory
      .describe(
        "Directory that files are written below; a relative path begins at the process's working directory. It is made if it is missing.",
      )
      .meta({ examples: ['/srv/waybill/inbox'] }),
    path_pattern: pathPattern(['from', 'to', 'filename', 'id', 'date'])
      .default('{to}/{filename}')
      .describe(
        "Where files are written below the base directory, with the places `{from}`, `{to}`, `{filename}`, `{id}` (the message's) and `{date}` (YYYY-MM-DD, UTC, of the message). Each file of a message with several has its own `{filename}`.",
      )
      .meta({ examples: ['{to}/{filename}', '{from}/{date}/{id}-{filename}'] }),
    on_conflict: z
      .enum(['rename', 'overwrite', 'fail'])
      .default('rename')
      .describe(
        'What happens when the file exists: another name, its replacement, or a failed delivery, which writes none of several files. Files of equal names in one message always get different ones.',
      )
      .meta({ examples: ['rename'] }),
    max_concurrent_deliveries: maxConcurrentDeliveries(1),
    ...retrySettings,
  })
  .superRefine(checkRetryWaits)
  .describe(
    "Writes each message's payload as a file, and each file of a message with several as a file of its own. None of them is seen before all are written.",
  )

export type FileWriterSettings = z.output<typeof fileWriterSettings>
