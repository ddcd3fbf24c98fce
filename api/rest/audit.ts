import { z } from 'zod'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { listOf, pagingParameters, timestamp } from '../../runtime/endpoint/paging.ts'
import { periodEnd, periodStart } from '../../runtime/endpoint/period.ts'
import type { AuditLog } from '../../storage/audit/audit-log.ts'
import { AUDIT_ACTIONS, AUDIT_KINDS } from '../../storage/audit/kinds.ts'
import { SharedRead } from './shared-read.ts'

/** `/audit`: who has changed what. */

export interface AuditServices {
  readonly audit: AuditLog
}

const tag = 'Audit log'
const EVENTS_ON_A_PAGE = 50
const action = z.enum(AUDIT_ACTIONS)
const kind = z.enum(AUDIT_KINDS)
const text = z.string().min(1).max(300).optional()
const hash = z
  .string()
  .regex(/^([0-9a-f]{64})?$/)
  .meta({ examples: ['5d1f0f6a3c9be07c2d4a8e91b6f3057c48a2e9d10b7c6f5e3a29184d7c60fb32'] })

const change = z
  .object({
    field: z
      .string()
      .describe('The property that was changed.')
      .meta({ examples: ['display_name'] }),
    old: z
      .unknown()
      .optional()
      .describe('Its value before; left out when the record is new. Of a value that is long, the beginning.')
      .meta({ examples: ['ACME'] }),
    new: z
      .unknown()
      .optional()
      .describe(
        'Its value afterwards; left out when the record was deleted. Of a value that is long, the beginning.',
      )
      .meta({ examples: ['ACME Ltd.'] }),
    secret: z
      .literal(true)
      .optional()
      .describe('The property is a secret that was set, changed or removed: no value is kept.'),
  })
  .meta({ id: 'AuditChange', description: 'What became of one property.' })

const event = z
  .object({
    v: z.int().describe('Version of the form that the event is stored in, and its hash covers.'),
    id: z.int().describe('Larger than that of every event before it; numbers may be missing.'),
    at: timestamp.describe('When it was written.'),
    actor: z
      .string()
      .describe(
        'Who did it: `sa:<name>` for a service account, the subject of a user, `developer` for a request without a credential in the developer build, `system` for Waybill itself and for commands on its machine.',
      )
      .meta({ examples: ['sa:ops'] }),
    action: action.describe('What was done.'),
    kind: kind.describe('To what kind of record.'),
    record_id: z
      .union([z.int(), z.string()])
      .nullable()
      .describe(
        'The id of the record as its own resource has it; `<type>:<name>` for a plugin instance. Null for a kind that has one record or none.',
      )
      .meta({ examples: [3, 'file-writer:archive'] }),
    record_name: z
      .string()
      .describe('The name of the record at that moment.')
      .meta({ examples: ['acme'] }),
    changes: z.array(change).describe('What was changed, property by property.'),
    prev_hash: hash.describe(
      'The hash of the event before it in the chain. The first event of the chain has a digest of the events without a hash before it, or nothing when there are none. Empty without an audit key.',
    ),
    hash: hash.describe(
      'HMAC-SHA-256 with the audit key over all properties above, lower case hexadecimal. Empty without an audit key.',
    ),
    record_gone: z.boolean().describe('Whether there is no record of this kind and id any more.'),
  })
  .meta({ id: 'AuditEvent', description: 'A change, or something done to a record.' })

const verification = z
  .object({
    ok: z.boolean().describe('Whether every event is as it was written, and none is missing.'),
    events_checked: z
      .int()
      .min(0)
      .describe('Events in the log; all were read.')
      .meta({ examples: [1284] }),
    chained: z
      .int()
      .min(0)
      .describe('Those with a hash.')
      .meta({ examples: [1280] }),
    unchained: z
      .int()
      .min(0)
      .describe('Those without one: they were written before there was an audit key.')
      .meta({ examples: [4] }),
    head_id: z.int().nullable().describe('The newest event with a hash; null for none.'),
    head_hash: hash.describe('Its hash; empty for none. Keep it elsewhere to compare it later.'),
    first_broken_id: z
      .int()
      .optional()
      .describe(
        'Of a log that does not verify, the first event that is not as it was written, that does not follow the one before it, or that is missing at the end.',
      ),
    reason: z
      .string()
      .optional()
      .describe('Of a log that does not verify, what is wrong with that event, in words.')
      .meta({
        examples: ['It does not follow event 7: events between them were removed, or one was moved.'],
      }),
  })
  .meta({ id: 'AuditVerification', description: 'What a verification of the audit log has found.' })

export function auditEndpoints({ audit }: AuditServices): readonly Endpoint[] {
  return [listEndpoint(audit), verifyEndpoint(audit)]
}

function listEndpoint(audit: AuditLog): Endpoint {
  return endpoint({
    method: 'GET',
    path: '/audit',
    operationId: 'listAuditEvents',
    summary: 'List audit events',
    description:
      'Every change of the configuration and of who may come in, and what was done to plugin instances. The log only grows. Filters combine; a parameter that is not listed here is refused.',
    tag,
    query: z.strictObject({
      ...pagingParameters(EVENTS_ON_A_PAGE),
      kind: kind.optional().meta({ description: 'Events of this kind of record.', examples: ['settings'] }),
      action: action.optional().meta({ description: 'Events of this action.', examples: ['deleted'] }),
      actor: text.meta({
        description: 'Events by this actor; one that nobody is called finds nothing.',
        examples: ['sa:ops'],
      }),
      record_id: text.meta({
        description: 'Events of the record of this id, exactly as the event shows it.',
        examples: ['3'],
      }),
      record_name: text.meta({
        description: 'Events of records that had this name then, exactly.',
        examples: ['acme'],
      }),
      from: periodStart(
        'Events at this time (RFC 3339, with any offset) or later; a date is the beginning of that day, UTC. A plus sign in it is written %2B.',
      ).optional(),
      to: periodEnd(
        'Events before this time (RFC 3339, with any offset); a date names that whole day, UTC.',
      ).optional(),
    }),
    answer: {
      kind: 'data',
      status: 200,
      schema: listOf('events', event),
      description: 'The page, newest first.',
    },
    handle: async ({ query }) => {
      const { limit, offset, ...filter } = query
      const { items, total } = await audit.list(filter, { limit, offset })
      return { events: [...items], total, limit, offset }
    },
  })
}

function verifyEndpoint(audit: AuditLog): Endpoint {
  // The log is read once at a time, however many ask for it.
  const reading = new SharedRead(() => audit.verify())
  return endpoint({
    method: 'POST',
    path: '/audit/verify',
    operationId: 'verifyAuditLog',
    summary: 'Verify the audit log',
    description:
      'Reads every event against its hash and the one before it, and the newest against the head that the last verification found. A large log takes a while: about 100,000 events each second or two. The verification is an event of the log itself, and the head it found is told in the service log too. A log whose audit key was changed, or that was written to without one after it had one, does not verify any more.',
    tag,
    answer: { kind: 'data', status: 200, schema: verification, description: 'What was found.' },
    errors: ['AUDIT_KEY_REQUIRED'],
    handle: async ({ caller, log }) => {
      const found = await reading.current()
      await audit.noteVerification(caller, found)
      if (found.ok) log.info(found, 'the audit log verifies')
      else log.error(found, 'the audit log does not verify')
      return found
    },
  })
}
