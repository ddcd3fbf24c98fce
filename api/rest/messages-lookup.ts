import type { Pool } from 'pg'
import { z } from 'zod'
import type { Clock } from '../../runtime/clock.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { ProtocolView } from '../../runtime/module.ts'
import type { Supervisor } from '../../runtime/supervisor/supervisor.ts'
import type { IntakeGate } from '../../storage/exchange/intake-gate.ts'
import { findMessage, type MessageView } from '../../storage/exchange/messages.ts'
import type { PayloadStore } from '../../storage/payloads/store.ts'

/** How the endpoints of messages find one. */

export interface MessageServices {
  readonly pool: Pool
  readonly payloads: PayloadStore
  readonly clock: Clock
  /** Whether anything is taken in now. */
  readonly intake: Pick<IntakeGate, 'assertOpen'>
  /** Told of deliveries that wait, after they are committed. */
  readonly supervisor: Pick<Supervisor, 'announce'>
  /** By module name; a module without one has no entry under `protocols`. */
  readonly protocolViews: Readonly<Record<string, ProtocolView>>
}

export const MESSAGES_TAG = 'Messages'

export const messageId = z
  .string()
  .regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, { error: 'must be a UUID' })
  .transform((id) => id.toLowerCase())

export const messagePath = z.object({
  id: messageId.meta({ format: 'uuid', description: 'Id of the message.' }),
})

/** Throws NOT_FOUND. */
export async function existingMessage(pool: Pool, id: string): Promise<MessageView> {
  const message = await findMessage(pool, id)
  if (message === null) throw messageNotFound()
  return message
}

export function messageNotFound(): WaybillError {
  return new WaybillError('NOT_FOUND', 'Message not found')
}
