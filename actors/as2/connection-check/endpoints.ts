import type { Pool } from 'pg'
import { z } from 'zod'
import type { Clock } from '../../../runtime/clock.ts'
import { crashPoint } from '../../../runtime/crash-point.ts'
import { endpoint, type Endpoint } from '../../../runtime/endpoint/endpoint.ts'
import { recordId } from '../../../runtime/endpoint/paging.ts'
import { recordName } from '../../../runtime/endpoint/record-rules.ts'
import { validationFailure, WaybillError } from '../../../runtime/errors.ts'
import type { Supervisor } from '../../../runtime/supervisor/supervisor.ts'
import { STATUSES } from '../../../storage/exchange/states.ts'
import { sendingChoices } from '../../../storage/profiles/sending-choices.ts'
import { STEPS, type ConnectionCheck } from './steps.ts'
import { CHECK_LIMIT_MS, type ConnectionCheckRequest } from './check.ts'
import { chooseSender } from './sending-choice.ts'
import { acceptTestMessage } from './test-message.ts'

/** `/as2/remote-profiles/{id}/check-connection` and `/as2/remote-profiles/{id}/test-message`. */

export interface ConnectionServices {
  readonly pool: Pool
  readonly clock: Clock
  readonly supervisor: Pick<Supervisor, 'find' | 'request' | 'announce'>
}

const SENDER_TYPE = 'as2-sender'
/** The check ends by itself; what lies beyond is for a thread that is busy. */
const REQUEST_LIMIT_MS = CHECK_LIMIT_MS + 10_000

const tag = 'AS2 profiles'
const params = z.object({ id: recordId.describe('Id of the partner.') })

const checkBody = z
  .strictObject({
    sender: recordName
      .optional()
      .describe('The AS2 sender to check from. May be left out where there is only one.')
      .meta({ examples: ['sender'] }),
  })
  .describe('From where to check.')

const checkAnswer = z
  .object({
    ok: z.boolean().describe('Whether no step failed.'),
    steps: z
      .array(
        z
          .object({
            name: z
              .enum(STEPS)
              .describe(
                'What is tried: the certificates that the partnership needs, and the receiver of its asynchronous receipts, the name of the host, a TCP connection, the TLS handshake, an HTTP request.',
              ),
            ok: z
              .boolean()
              .nullable()
              .describe('Null: not reached, because an earlier step failed.')
              .meta({ examples: [true] }),
            elapsed_ms: z.int().min(0).describe('How long it took; 0 for a step that was not reached.'),
            detail: z
              .string()
              .describe('What was found, or why it failed.')
              .meta({ examples: ['connected to 192.0.2.7:443'] }),
          })
          .meta({ id: 'ConnectionCheckStep', description: 'How one step ended.' }),
      )
      .describe('All steps, in the order in which they are taken.'),
    problem: z
      .string()
      .nullable()
      .describe('The step that failed, and why. Null when all is well.')
      .meta({ examples: ['connect: 192.0.2.7:443 does not answer: a firewall may drop the connection'] }),
  })
  .meta({ id: 'ConnectionCheck', description: 'What a sender meets on its way to the partner.' })

export function connectionEndpoints(services: ConnectionServices): readonly Endpoint[] {
  return [checkEndpoint(services), testEndpoint(services)]
}

function checkEndpoint(services: ConnectionServices): Endpoint {
  return endpoint({
    method: 'POST',
    path: '/as2/remote-profiles/{id}/check-connection',
    operationId: 'checkConnection',
    summary: 'Check the connection to a partner',
    description: `Tries, from the thread and with the settings of an AS2 sender, everything that a message to the partner needs, and sends none. The certificates are those of the profile and of organizations. Organizations that routes to the partner name must all be able to send. Where no route names one, because \`from\` is \`*\` or there is no route, the step \`certificates\` fails only when none of those that have an AS2 profile can send; its \`detail\` tells what the others lack. Asynchronous receipts need an enabled AS2 receiver, at an address that leads to us also from where the partner is. An \`http\` endpoint needs no TLS: that step says \`not used\`. The HTTP request is a GET; any answer shows that a server is there, but 401, 403 and 407 fail the step when the profile has a user name and a password. The first step that fails ends the check, which takes ${CHECK_LIMIT_MS / 1000} seconds at most.`,
    tag,
    params,
    body: { kind: 'action', name: 'ConnectionCheckRequest', schema: checkBody, optional: true },
    answer: {
      kind: 'data',
      status: 200,
      schema: checkAnswer,
      description: 'The check was made; `ok` and `problem` tell how it ended.',
    },
    errors: ['SENDER_NOT_RUNNING', 'INSTANCE_UNAVAILABLE'],
    handle: async ({ path, body, signal }) => {
      const choices = await sendingChoices(services.pool, path.id, SENDER_TYPE)
      if (choices === null) throw new WaybillError('NOT_FOUND', 'AS2 profile not found')
      const choice = chooseSender(body.sender, choices, [])
      if (choice.kind === 'refused') throw validationFailure({ sender: choice.refusal })
      return checkFrom(services, choice.name, { kind: 'check-connection', partnerId: path.id }, signal)
    },
  })
}

async function checkFrom(
  { supervisor }: ConnectionServices,
  sender: string,
  request: ConnectionCheckRequest,
  signal: AbortSignal,
) {
  const status = (): string => supervisor.find(SENDER_TYPE, sender)?.status ?? 'disabled'
  const refuseUnlessRunning = (): void => {
    if (status() === 'running') return
    throw new WaybillError('SENDER_NOT_RUNNING', `The AS2 sender ${sender} is ${status()}`)
  }
  refuseUnlessRunning()
  try {
    const options = { timeoutMs: REQUEST_LIMIT_MS, signal }
    const { ok, steps, problem } = (await supervisor.request(
      SENDER_TYPE,
      sender,
      request,
      options,
    )) as ConnectionCheck
    return { ok, steps: [...steps], problem }
  } catch (thrown) {
    // It may have ended while it was asked.
    if (thrown instanceof WaybillError && thrown.code === 'INSTANCE_UNAVAILABLE') refuseUnlessRunning()
    throw thrown
  }
}

const testBody = z
  .strictObject({
    sender: recordName
      .optional()
      .describe(
        'The AS2 sender that delivers it. May be left out where routes to the partner lead to only one, or only one exists.',
      )
      .meta({ examples: ['sender'] }),
    organization: recordName
      .optional()
      .describe(
        'Name of the organization that it comes from, which needs an AS2 profile. May be left out where the routes to the partner through the sender name only one that has a profile, or only one has.',
      )
      .meta({ examples: ['acme'] }),
  })
  .describe('Between whom to send.')

const testAnswer = z
  .object({
    message_id: z.uuid().describe('Id of the message: `GET /messages/{id}` shows how it goes on.'),
    status: z
      .enum(STATUSES)
      .describe('Its status now.')
      .meta({ examples: ['InProgress'] }),
    file_name: z
      .string()
      .describe('Name of the file that was made up.')
      .meta({ examples: ['waybill-test-20260302T093000Z.txt'] }),
  })
  .meta({ id: 'TestMessage', description: 'A test message on its way.' })

function testEndpoint(services: ConnectionServices): Endpoint {
  return endpoint({
    method: 'POST',
    path: '/as2/remote-profiles/{id}/test-message',
    operationId: 'sendTestMessage',
    summary: 'Send a test message to a partner',
    description:
      'Makes up a small text file and sends it as a message, whatever the routes say. It goes out as soon as the sender runs: one to a stopped sender waits.',
    tag,
    params,
    body: { kind: 'action', name: 'TestMessageRequest', schema: testBody, optional: true },
    answer: { kind: 'data', status: 201, schema: testAnswer, description: 'The message was accepted.' },
    handle: async ({ path, body, caller, log }) => {
      const { target, ...sent } = await acceptTestMessage(services, {
        partnerId: path.id,
        sender: body.sender,
        organization: body.organization,
        caller: caller.name,
      })
      crashPoint('api.test-message-accepted')
      services.supervisor.announce(target, 1)
      log.info({ message: sent.message_id, target, caller: caller.name }, 'Test message sent')
      return sent
    },
  })
}
