import {
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  type ListMultipartUploadsCommandOutput,
  type S3Client,
} from '@aws-sdk/client-s3'
import { StorageError } from '../../storage-error.ts'
import { asStorageError } from '../failure.ts'
import { isMessageId } from '../store.ts'
import { S3 } from './problem.ts'

interface Within {
  readonly Bucket: string
  /** Ends with a slash. */
  readonly Prefix: string
}

const PAGE = 1_000

/** The messages that have objects, page by page. */
export async function* messageIdsIn(client: S3Client, within: Within): AsyncGenerator<string> {
  let token: string | undefined
  do {
    const list = new ListObjectsV2Command({
      ...within,
      Delimiter: '/',
      MaxKeys: PAGE,
      ...(token === undefined ? {} : { ContinuationToken: token }),
    })
    const page: ListObjectsV2CommandOutput = await listing(within, () => client.send(list))
    for (const { Prefix } of page.CommonPrefixes ?? []) {
      const id = Prefix?.slice(within.Prefix.length, -1) ?? ''
      if (isMessageId(id)) yield id
    }
    token = page.IsTruncated === true ? page.NextContinuationToken : undefined
  } while (token !== undefined)
}

/** The multipart uploads that are not completed, page by page, each as `<key>?<upload id>`. */
export async function* uploadsIn(client: S3Client, within: Within): AsyncGenerator<string> {
  let after: { KeyMarker?: string; UploadIdMarker?: string } | null = {}
  while (after !== null) {
    const list = new ListMultipartUploadsCommand({ ...within, MaxUploads: PAGE, ...after })
    const page: ListMultipartUploadsCommandOutput = await listing(within, () => client.send(list))
    for (const { Key, UploadId } of page.Uploads ?? []) {
      if (Key !== undefined && UploadId !== undefined) yield `${Key}?${UploadId}`
    }
    const { IsTruncated, NextKeyMarker, NextUploadIdMarker } = page
    after =
      IsTruncated === true && NextKeyMarker !== undefined
        ? {
            KeyMarker: NextKeyMarker,
            ...(NextUploadIdMarker === undefined ? {} : { UploadIdMarker: NextUploadIdMarker }),
          }
        : null
  }
}

/** The upload that a name of `uploadsIn` means. */
export function uploadOf(name: string): { readonly Key: string; readonly UploadId: string } {
  const at = name.indexOf('?')
  if (at < 0) throw new StorageError(`${JSON.stringify(name)} is no multipart upload`)
  return { Key: name.slice(0, at), UploadId: name.slice(at + 1) }
}

function listing<T>({ Bucket }: Within, act: () => Promise<T>): Promise<T> {
  return asStorageError(`The bucket ${Bucket} cannot be listed`, S3, act)
}
