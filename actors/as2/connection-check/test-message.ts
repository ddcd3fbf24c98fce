import { randomUUIDv7 } from 'node:crypto'
import type { Pool } from 'pg'
import type { Clock } from '../../../runtime/clock.ts'
import { validationFailure, WaybillError } from '../../../runtime/errors.ts'
import { journaled } from '../../../storage/exchange/stages.ts'
import type { Status } from '../../../storage/exchange/states.ts'
import { organizationFacts, sendingChoices } from '../../../storage/profiles/sending-choices.ts'
import { accept } from '../../../storage/sql/accept.ts'
import { chooseOrganization, chooseSender, type Choice } from './sending-choice.ts'

export interface TestMessageWishes {
  readonly partnerId: number
  readonly sender: string | undefined
  readonly organization: string | undefined
  /** Who asks, as the history tells. */
  readonly caller: string
}

export interface SentTestMessage {
  readonly message_id: string
  readonly status: Status
  readonly file_name: string
  /** The sender that has to be told of it. */
  readonly target: string
}

/**
 * Accepts a small text made up for the partner, as a message that somebody sends by hand through one sender. Throws
 * NOT_FOUND for a partner without a profile, and a validation failure that names what must be chosen.
 */
export async function acceptTestMessage(
  { pool, clock }: { readonly pool: Pool; readonly clock: Clock },
  { partnerId, sender, organization, caller }: TestMessageWishes,
): Promise<SentTestMessage> {
  const choices = await sendingChoices(pool, partnerId, 'as2-sender')
  if (choices === null) throw new WaybillError('NOT_FOUND', 'AS2 profile not found')
  const by = chooseSender(sender, choices, choices.routedSenders)
  const from = await withProfile(
    chooseOrganization(organization, choices, by.kind === 'chosen' ? by.name : null),
    pool,
  )
  if (by.kind === 'refused' || from.kind === 'refused') {
    throw validationFailure({
      ...(by.kind === 'refused' ? { sender: by.refusal } : {}),
      ...(from.kind === 'refused' ? { organization: from.refusal } : {}),
    })
  }
  const now = clock.now()
  const bytes = Buffer.from(textOf(from.name, choices.partner, now))
  const fileName = `waybill-test-${now.toISOString().replaceAll(/[-:]|\.\d+/g, '')}.txt`
  const [accepted] = await accept(pool, [
    {
      id: randomUUIDv7(),
      direction: 'outbound',
      source: 'api',
      from: from.name,
      to: choices.partner,
      fileName,
      contentType: 'text/plain',
      sizeBytes: bytes.length,
      stages: [journaled('unpacked', bytes)],
      protocols: {},
      sourceReference: null,
      duplicateKey: null,
      refusal: null,
      dispatch: true,
      byHand: { target: by.name, sender: caller },
    },
  ])
  if (accepted === undefined) throw new Error('A message without a duplicate key was not accepted')
  return { message_id: accepted.id, status: accepted.status, file_name: fileName, target: by.name }
}

/** An organization can only send with an AS2 profile. */
async function withProfile(choice: Choice, pool: Pool): Promise<Choice> {
  if (choice.kind === 'refused') return choice
  const { name } = choice
  const facts = await organizationFacts(pool, name)
  if (facts === null) return { kind: 'refused', refusal: `there is no organization ${name}` }
  if (!facts.hasProfile) return { kind: 'refused', refusal: `the organization ${name} has no AS2 profile` }
  return choice
}

/** Lines end as text/plain asks on the wire (RFC 2046 §4.1.1). */
function textOf(organization: string, partner: string, now: Date): string {
  const lines = [
    'This is a test message. It holds no business data.',
    '',
    `From: ${organization}`,
    `To: ${partner}`,
    `Sent: ${now.toISOString()}`,
  ]
  return `${lines.join('\r\n')}\r\n`
}
