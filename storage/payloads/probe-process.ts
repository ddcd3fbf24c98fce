import { probeBucket, probeDirectory, type ProbeStep } from './probe.ts'

/**
 * A process of its own that tries a storage out (storage-test.ts starts it): a directory, or bucket, region and endpoint.
 * It tells each step as it begins, and then the result, a line of JSON each.
 */
const [first, region, endpoint] = process.argv.slice(2)
if (first === undefined)
  throw new Error('The arguments are missing: a directory, or bucket, region and endpoint')
const tell = (line: object): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}
const began = (step: ProbeStep): void => tell({ step })
if (region === undefined || endpoint === undefined) {
  tell(await probeDirectory(first, began))
} else {
  const bucket = { storage_s3_bucket: first, storage_s3_region: region, storage_s3_endpoint: endpoint }
  tell(await probeBucket(bucket, began))
}
