import { Readable } from 'node:stream'
import type { ActorContext, RunningActor } from '../../runtime/thread/actor.ts'
import { openStorage, type ProcessFacts } from '../../storage/access.ts'
import { Consumer, DELIVERED } from '../../storage/exchange/consumer.ts'
import { openDeliveries, type ClaimedDelivery } from '../../storage/sql/claim.ts'
import { openStage } from '../../storage/payloads/journal.ts'
import { safeName } from './names.ts'
import { fillPath } from './pattern.ts'
import { Publisher } from './publish.ts'
import type { FileWriterSettings } from './settings.ts'

/** Runs a `file-writer`: puts each message's payload as a file into a folder. */
export default async function start(context: ActorContext<FileWriterSettings>): Promise<RunningActor> {
  const { settings, name, log } = context
  const access = context.process as ProcessFacts
  const publisher = await Publisher.open(settings.base_directory)
  const { pool, payloads, close } = await openStorage(access, { log, name, poolSize: 2 })
  await publisher.sweep((ids) => openDeliveries(pool, ids))

  const consumer = await Consumer.start({
    context,
    pool,
    nodeId: access.nodeId,
    concurrency: settings.max_concurrent_deliveries,
    retry: settings,
    deliver: async (delivery) => {
      await publisher.publish({
        deliveryId: delivery.id,
        fencing: delivery.fencing,
        path: pathOf(settings.path_pattern, delivery),
        onConflict: settings.on_conflict,
        open: async () =>
          delivery.unpacked === null
            ? openStage(pool, payloads, delivery.message_id, 'unpacked')
            : Readable.from([delivery.unpacked], { objectMode: false }),
      })
      return DELIVERED
    },
    finished: (delivery) => publisher.finished(delivery.id),
  })
  return {
    stop: async () => {
      await consumer.stop()
      await close()
    },
  }
}

/** The date is the message's, in UTC, so that a repeat goes to the same place. */
function pathOf(pattern: string, delivery: ClaimedDelivery): string {
  return fillPath(pattern, {
    from: safeName(delivery.from_party, 'unknown'),
    to: safeName(delivery.to_party, 'unknown'),
    filename: safeName(delivery.file_name, delivery.message_id),
    id: delivery.message_id,
    date: delivery.message_created_at.toISOString().slice(0, 10),
  })
}
