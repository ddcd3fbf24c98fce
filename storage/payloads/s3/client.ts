import { S3Client } from '@aws-sdk/client-s3'
import type { Bucket } from './bucket.ts'

/** A connection is there by then, or the endpoint counts as away. */
const CONNECT_TIMEOUT_MS = 5_000
/** From the beginning of a request to the first byte of its answer: a part of 8 MiB passes at 1.2 MBit/s. */
const ANSWER_TIMEOUT_MS = 60_000
/** No byte in either direction for so long. */
const SILENCE_TIMEOUT_MS = 15_000
/** Tries of one request in all; between them are fractions of a second. */
const ATTEMPTS = 3
/**
 * Connections of one thread at most. A download holds one for as long as its reader takes, so there are more than all
 * deliveries of an instance and many readers of the API need, and puts never wait for slow readers.
 */
const MOST_CONNECTIONS = 256

/**
 * A client for the bucket's service. It takes credentials from the AWS SDK's own sources (the environment, the files of
 * `~/.aws`, the role of the machine or container), and region and endpoint from the settings alone.
 */
export function s3Client(storage: Bucket): S3Client {
  const { storage_s3_endpoint: endpoint, storage_s3_region: region } = storage
  const agent = { keepAlive: true, maxSockets: MOST_CONNECTIONS }
  return new S3Client({
    region,
    ...(endpoint === '' ? {} : { endpoint }),
    // Services of one's own rarely have a host name a bucket.
    forcePathStyle: endpoint !== '',
    followRegionRedirects: false,
    maxAttempts: ATTEMPTS,
    retryMode: 'standard',
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: ANSWER_TIMEOUT_MS,
      throwOnRequestTimeout: true,
      socketTimeout: SILENCE_TIMEOUT_MS,
      httpAgent: agent,
      httpsAgent: agent,
    },
    // What is read is held against our own digest; a second one would only cost time.
    responseChecksumValidation: 'WHEN_REQUIRED',
    logger: SILENT,
  })
}

/** What it would warn of is told by the error, once. */
const SILENT = {
  trace: () => undefined,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}
