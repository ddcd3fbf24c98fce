import { isIPv4 } from 'node:net'
import { resolve } from 'node:path'
import { z } from 'zod'
import { refusalOfUrl } from '../../runtime/endpoint/target-url.ts'

/** The settings that say where payloads are stored. */

/** Amazon's rules for the names of buckets, which the compatible services share. */
const BUCKET = /^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?$/
const REGION = /^[A-Za-z0-9_-]*$/

export const storageSettings = {
  storage_backend: z
    .enum(['local', 's3'])
    .default('local')
    .describe('Where payloads are stored: in a directory or in an S3 bucket.')
    .meta({ examples: ['local'] }),
  storage_local_directory: z
    .string()
    .max(1000)
    .default('./payloads')
    .describe(
      'The directory of local storage, absolute or relative to the working directory of the process. Required for local storage; it is made when it is missing.',
    )
    .meta({ examples: ['./payloads', '/var/lib/waybill/payloads'] }),
  storage_s3_bucket: z
    .string()
    .regex(BUCKET, {
      error:
        'must have 3 to 63 lower case letters, digits, dots and hyphens, with a letter or digit at both ends',
    })
    .refine((name) => !name.includes('..'), { error: 'must not have two dots in a row' })
    .refine((name) => !isIPv4(name), { error: 'must not be an IP address' })
    .default('')
    .describe(
      'The bucket of S3 storage, which must exist: the storage test and the start of the process look, saving does not. Required for S3 storage, otherwise it may be empty.',
    )
    .meta({ examples: ['acme-payloads'] }),
  storage_s3_region: z
    .string()
    .max(64)
    .regex(REGION, { error: 'may have letters, digits, _ and - only' })
    .default('')
    .describe("The bucket's region. Required for S3 storage, otherwise it may be empty.")
    .meta({ examples: ['eu-central-1'] }),
  storage_s3_endpoint: z
    .string()
    .max(2000)
    .superRefine((text, context) => {
      const refusal = text === '' ? null : refusalOfUrl(text)
      if (refusal !== null) context.addIssue({ code: 'custom', message: refusal })
    })
    .default('')
    .describe(
      "Address of an S3 service, an absolute http or https URL without credentials; with one, path-style addressing is used. Empty for the provider's own service.",
    )
    .meta({ examples: ['', 'https://s3.example.com'] }),
}

const storageSchema = z.object(storageSettings)

/** Where payloads are stored. Credentials are no part of it: they come from the environment. */
export type StorageSettings = z.output<typeof storageSchema>

/** Only the storage of these settings. */
export function storageOf(settings: StorageSettings): StorageSettings {
  const {
    storage_backend,
    storage_local_directory,
    storage_s3_bucket,
    storage_s3_region,
    storage_s3_endpoint,
  } = settings
  return {
    storage_backend,
    storage_local_directory,
    storage_s3_bucket,
    storage_s3_region,
    storage_s3_endpoint,
  }
}

/** Whether both lead to the same place. What the chosen backend does not use makes no difference. */
export function isSameStorage(one: StorageSettings, other: StorageSettings): boolean {
  if (one.storage_backend !== other.storage_backend) return false
  if (one.storage_backend === 'local') {
    return resolve(one.storage_local_directory) === resolve(other.storage_local_directory)
  }
  return (
    one.storage_s3_bucket === other.storage_s3_bucket &&
    one.storage_s3_region === other.storage_s3_region &&
    addressOf(one.storage_s3_endpoint) === addressOf(other.storage_s3_endpoint)
  )
}

/** An endpoint as it is dialled: `https://S3.example.com` and `https://s3.example.com:443/` are one. */
function addressOf(endpoint: string): string {
  return endpoint === '' ? '' : new URL(endpoint).href
}
