import { resolve } from 'node:path'
import type { Readable } from 'node:stream'
import type { Pool } from 'pg'
import { reasonOf } from '../../runtime/errors.ts'
import type { ActorContext, RunningActor } from '../../runtime/thread/actor.ts'
import { isSeveralFiles, partFacts } from '../../runtime/mime/attachment.ts'
import { MimeError } from '../../runtime/mime/mime-error.ts'
import { partEvents } from '../../runtime/mime/part-events.ts'
import { attachmentName } from '../../storage/exchange/attachments.ts'
import { openStorage, type ProcessFacts } from '../../storage/access.ts'
import { Consumer, DELIVERED, type AttemptResult } from '../../storage/exchange/consumer.ts'
import { PermanentFailure } from '../../storage/exchange/retry.ts'
import { claimedBytes, openDelivered } from '../../storage/payloads/delivered-payload.ts'
import type { PayloadStore } from '../../storage/payloads/store.ts'
import { isUnavailable } from '../../storage/postgres/unavailable.ts'
import { openDeliveries, type ClaimedDelivery } from '../../storage/sql/claim.ts'
import { DistinctPaths } from './distinct-paths.ts'
import { FolderCaller, type Caller } from './folder-caller.ts'
import { safeName } from './names.ts'
import { fillPath } from './pattern.ts'
import type { Publication } from './publish.ts'
import type { FileWriterSettings } from './settings.ts'
import type { WriterOperations } from './writer-operations.ts'

/** Runs a `file-writer`: puts each message's payload as a file into a folder, and of several files each for itself. */
export default async function start(context: ActorContext<FileWriterSettings>): Promise<RunningActor> {
  const { settings, name, log } = context
  const opening = resolve(settings.base_directory)
  const folder = new FolderCaller<WriterOperations>({ role: 'writer', opening, log })
  await folder.call('open', opening)
  const { pool, payloads, close } = await openStorage(context.process as ProcessFacts, {
    log,
    name,
    poolSize: 2,
  })
  await sweep(folder.call, pool).catch((error: unknown) => {
    // Traces that stay do no harm; a database that is away must not end the start.
    if (!isUnavailable(error)) throw error
    log.warn({ reason: reasonOf(error) }, 'the traces of settled deliveries stay until the next start')
  })
  const writer = new Writer({ folder: folder.call, pool, payloads, settings })
  const consumer = Consumer.start({
    context,
    pool,
    concurrency: settings.max_concurrent_deliveries,
    retry: settings,
    deliver: (delivery) => writer.deliver(delivery),
    finished: async (delivery) => {
      await folder.call('finished', delivery.id)
    },
  })
  return {
    stop: async () => {
      await consumer.stop()
      await folder.close()
      await close()
    },
  }
}

/** Removes the traces of all deliveries but those that are not settled. */
async function sweep(folder: Caller<WriterOperations>, pool: Pool): Promise<void> {
  const traced = await folder('traced', null)
  if (traced.length === 0) return
  const open = await openDeliveries(pool, traced)
  for (const id of traced) if (!open.has(id)) await folder('finished', id)
}

interface WriterParts {
  readonly folder: Caller<WriterOperations>
  readonly pool: Pool
  readonly payloads: PayloadStore
  readonly settings: FileWriterSettings
}

class Writer {
  readonly #parts: WriterParts

  constructor(parts: WriterParts) {
    this.#parts = parts
  }

  async deliver(delivery: ClaimedDelivery): Promise<AttemptResult> {
    const { settings, folder } = this.#parts
    const publication: Publication = {
      deliveryId: delivery.id,
      fencing: delivery.fencing,
      file: null,
      isRepeat: delivery.attempts > 1,
      path: pathOf(settings.path_pattern, delivery, delivery.file_name),
      onConflict: settings.on_conflict,
    }
    if (isSeveralFiles(delivery.content_type)) {
      await this.#publishSeveral(publication, delivery)
      return DELIVERED
    }
    const bytes = claimedBytes(delivery)
    if (bytes === null) await this.#publish(publication, delivery)
    else await folder('publishWhole', { publication, bytes })
    return DELIVERED
  }

  /** Every file of a message with several is written before the first is published: one may turn out to be damaged. */
  async #publishSeveral(publication: Publication, delivery: ClaimedDelivery): Promise<void> {
    const { folder, pool, payloads } = this.#parts
    const { deliveryId, fencing } = publication
    const source = await openDelivered(pool, payloads, delivery)
    try {
      await this.#writeAll(publication, delivery, source)
    } catch (error) {
      await folder('abandon', { deliveryId, fencing }).catch(() => undefined)
      if (error instanceof MimeError)
        throw new PermanentFailure(`The files of the message cannot be told apart: ${error.message}`)
      throw error
    } finally {
      source.destroy()
    }
    await folder('publishAll', { deliveryId, fencing })
  }

  async #writeAll(publication: Publication, delivery: ClaimedDelivery, source: Readable): Promise<void> {
    const { folder, settings } = this.#parts
    const { deliveryId, fencing } = publication
    const paths = new DistinctPaths()
    let file = 0
    let isWritten = false
    for await (const event of partEvents(delivery.content_type, source)) {
      if (event.kind === 'begin') {
        file += 1
        const name = attachmentName(partFacts(event.headers), file, delivery.message_id)
        const path = paths.next(pathOf(settings.path_pattern, delivery, name))
        isWritten = await folder('begin', { ...publication, file, path })
      } else if (isWritten) {
        if (event.kind === 'bytes') await folder('write', { deliveryId, fencing, file, bytes: event.bytes })
        else await folder('seal', { deliveryId, fencing, file })
      }
    }
  }

  /** A large file part by part; one that turns out to be damaged is not published. */
  async #publish(publication: Publication, delivery: ClaimedDelivery): Promise<void> {
    const { folder, pool, payloads } = this.#parts
    const { deliveryId, fencing, file } = publication
    const source = await openDelivered(pool, payloads, delivery)
    try {
      if (!(await folder('begin', publication))) return
      try {
        for await (const bytes of source as AsyncIterable<Buffer>)
          await folder('write', { deliveryId, fencing, file, bytes })
      } catch (error) {
        await folder('abandon', { deliveryId, fencing }).catch(() => undefined)
        throw error
      }
      await folder('publish', { deliveryId, fencing, file })
    } finally {
      source.destroy()
    }
  }
}

/** The date is the message's, in UTC, so that a repeat goes to the same place. */
function pathOf(pattern: string, delivery: ClaimedDelivery, fileName: string): string {
  return fillPath(pattern, {
    from: safeName(delivery.from_party, 'unknown'),
    to: safeName(delivery.to_party, 'unknown'),
    filename: safeName(fileName, delivery.message_id),
    id: delivery.message_id,
    date: delivery.message_created_at.toISOString().slice(0, 10),
  })
}
