import { z } from 'zod'
import { crashPoint } from '../../runtime/crash-point.ts'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import { REDELIVERABLE_STATES, REDISPATCHABLE_STAGES } from '../../storage/exchange/states.ts'
import { redeliver } from '../../storage/sql/redeliver.ts'
import { redispatch } from '../../storage/sql/redispatch.ts'
import { messageAnswer, shownMessage } from './message-answer.ts'
import {
  existingMessage,
  messageNotFound,
  messagePath,
  MESSAGES_TAG,
  type MessageServices,
} from './messages-lookup.ts'

/** What an operator asks for once more: the way of a message, or one delivery of it. */
export function repetitionEndpoints(services: MessageServices): readonly Endpoint[] {
  return [redispatchEndpoint(services), redeliverEndpoint(services)]
}

const answer = {
  kind: 'data',
  status: 200,
  schema: messageAnswer,
  description: 'The message as it is now.',
} as const

function redispatchEndpoint({ pool, supervisor, protocolViews }: MessageServices): Endpoint {
  return endpoint({
    method: 'POST',
    path: '/messages/{id}/redispatch',
    operationId: 'redispatchMessage',
    summary: 'Dispatch a message again',
    description: `Matches the message against the routes as they stand now: a target that it has no delivery for gets one. Deliveries that are queued or stalled are queued again and announced to their targets; all others are left alone.

A message that was refused stays as it is, and one that was sent by hand gets no new deliveries. When nothing changes, the answer is 200 with the unchanged message, and its history gets no line.`,
    tag: MESSAGES_TAG,
    params: messagePath,
    answer,
    errors: ['NOT_REDISPATCHABLE'],
    handle: async ({ path, caller, log }) => {
      const done = await redispatch(pool, path.id, caller.name)
      if (done === null) throw messageNotFound()
      const { stage, targets } = done
      if (stage === 'accepted') {
        throw new WaybillError('NOT_REDISPATCHABLE', 'The source of the message still owns it', {
          stage,
          allowed: REDISPATCHABLE_STAGES,
        })
      }
      crashPoint('api.redispatched')
      for (const target of targets) supervisor.announce(target, 1)
      log.info({ message: path.id, targets, caller: caller.name }, 'Redispatch requested')
      return shownMessage(await existingMessage(pool, path.id), protocolViews)
    },
  })
}

/** The largest id that a delivery can have: PostgreSQL's bigint. */
const LARGEST_ID = 2n ** 63n - 1n

const deliveryPath = messagePath.extend({
  delivery_id: z
    .string()
    .regex(/^\d{1,100}$/, { error: 'must be a whole number' })
    .transform((text) => {
      const id = BigInt(text)
      // One above the largest is a whole number that no delivery has.
      return String(id > LARGEST_ID ? LARGEST_ID : id)
    })
    .meta({ type: 'integer', minimum: 0, description: 'Id of the delivery.', examples: [17] }),
})

function redeliverEndpoint({ pool, supervisor, protocolViews }: MessageServices): Endpoint {
  return endpoint({
    method: 'POST',
    path: '/messages/{id}/deliveries/{delivery_id}/redeliver',
    operationId: 'redeliverMessage',
    summary: 'Deliver to one target again',
    description: `Puts a delivery back to queued with no attempts and no error, whatever became of it: delivered, failed, stalled, or waiting for its next attempt. The target gets the payload once more; an AS2 partner sees a repeat with the same Message-ID.

One that is queued, being delivered or waiting for its receipt is still under way and is 409.`,
    tag: MESSAGES_TAG,
    params: deliveryPath,
    answer,
    errors: ['NOT_REDELIVERABLE'],
    handle: async ({ path, caller, log }) => {
      const ids = { messageId: path.id, deliveryId: path.delivery_id }
      const done = await redeliver(pool, ids, caller.name)
      if (done === null) {
        await existingMessage(pool, path.id)
        throw new WaybillError('NOT_FOUND', 'Delivery not found')
      }
      const { state, target, requeued } = done
      if (!requeued) {
        throw new WaybillError('NOT_REDELIVERABLE', `The delivery is ${state}`, {
          state,
          allowed: REDELIVERABLE_STATES,
        })
      }
      crashPoint('api.redelivered')
      supervisor.announce(target, 1)
      log.info(
        { message: path.id, delivery: ids.deliveryId, target, caller: caller.name },
        'Redelivery requested',
      )
      return shownMessage(await existingMessage(pool, path.id), protocolViews)
    },
  })
}
