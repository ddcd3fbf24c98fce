import type { Socket } from 'node:net'
import type { Pool } from 'pg'
import type { Clock } from '../../../runtime/clock.ts'
import { WaybillError } from '../../../runtime/errors.ts'
import { connectionFacts, type ConnectionFacts } from '../../../storage/profiles/connection-facts.ts'
import type { SecretBox } from '../../../storage/secrets/secret-box.ts'
import { receiptDeliveryOption } from '../receipts/delivery-option.ts'
import { checkedCertificates } from './certificates.ts'
import { ask, connect, resolve } from './network.ts'
import { loopProblem } from './receipts.ts'
import { Bounds, Problem, StepLog, type ConnectionCheck } from './steps.ts'
import { secure, type Secured } from './tls.ts'
import { CLOSED_AFTER_HANDSHAKE, handshakeProblem } from './tls-words.ts'
import { openedSecrets, profileHeaders } from '../profiles/partnership.ts'
import type { As2SenderSettings } from '../settings.ts'
import { tlsSettings } from '../profiles/tls-identity.ts'

/** What a sender is asked over its channel. */
export interface ConnectionCheckRequest {
  readonly kind: 'check-connection'
  readonly partnerId: number
}

/** However patient the settings are: somebody waits for the answer. */
export const CHECK_LIMIT_MS = 60_000
const ANSWER_LIMIT_MS = 30_000

export interface ConnectionChecker {
  readonly pool: Pool
  readonly secrets: SecretBox
  readonly settings: As2SenderSettings
  /** The User-Agent of what we send. */
  readonly product: string
  /** By which the service is known outside. */
  readonly publicUrl: string
  readonly clock: Clock
}

/**
 * Tries everything that a message to a partner needs, short of sending one, from the thread and with the settings of
 * the sender that would. Throws NOT_FOUND for a partner without a profile.
 */
export async function checkConnection(
  checker: ConnectionChecker,
  { partnerId }: ConnectionCheckRequest,
  signal: AbortSignal,
): Promise<ConnectionCheck> {
  const facts = await connectionFacts(checker.pool, partnerId, 'as2-sender')
  if (facts === null) throw new WaybillError('NOT_FOUND', 'AS2 profile not found')
  const steps = new StepLog()
  const sockets: Socket[] = []
  try {
    await takeSteps({ checker, facts, steps, signal, keep: (socket) => sockets.push(socket) })
  } catch (error) {
    if (!(error instanceof Problem)) throw error
  } finally {
    for (const socket of sockets) socket.destroy()
  }
  return steps.result()
}

interface Undertaking {
  readonly checker: ConnectionChecker
  readonly facts: ConnectionFacts
  readonly steps: StepLog
  readonly signal: AbortSignal
  readonly keep: (socket: Socket) => void
}

async function takeSteps({ checker, facts, steps, signal, keep }: Undertaking): Promise<void> {
  const { settings, secrets, clock, product } = checker
  const deadline = performance.now() + CHECK_LIMIT_MS
  const connecting = new Bounds({ limitMs: settings.connect_timeout_seconds * 1000, deadline, signal })
  const answerMs = Math.min(settings.response_timeout_seconds * 1000, ANSWER_LIMIT_MS)
  const answering = new Bounds({ limitMs: answerMs, deadline, signal })

  const receiptUrl = await receiptDeliveryOption(checker.pool, checker.publicUrl)
  await steps.run('certificates', async () => checkedCertificates(facts, { now: clock.now(), receiptUrl }))
  const url = new URL(facts.endpoint)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const isSecure = url.protocol === 'https:'
  const addresses = await steps.run('resolve', async () => {
    const resolved = await resolve(host, connecting)
    const loop = loopProblem(facts, receiptUrl, resolved.value)
    if (loop !== null) throw new Problem(loop)
    return resolved
  })
  const port = url.port === '' ? (isSecure ? 443 : 80) : Number(url.port)
  const plain = await steps.run('connect', () => connect({ host, port, addresses }, connecting, keep))
  const tls = tlsSettings(facts, secrets)
  const secured = await steps.run<Secured | null>('tls', async () =>
    isSecure ? secure(plain, { host, tls }, connecting) : { detail: 'not used', value: null },
  )
  if (secured !== null) keep(secured.socket)
  const headers = [['User-Agent', product] as const, ...profileHeaders(facts, openedSecrets(facts, secrets))]
  const identified = facts.http_basic_username !== ''
  try {
    await steps.run('http', () => ask(secured?.socket ?? plain, { url, headers, identified }, answering))
  } catch (error) {
    const late = secured === null ? null : refusalAfterHandshake(error, secured)
    if (late !== null) steps.revoke('tls', 'http', late)
    throw error
  }
}

/** In TLS 1.3 a server refuses our certificate only after we have begun to speak. Null where it is not that. */
function refusalAfterHandshake(error: unknown, { accepted }: Secured): string | null {
  if (!(error instanceof Problem) || error.cause === undefined) return null
  const alert = handshakeProblem(error.cause)
  return alert ?? (accepted() ? null : CLOSED_AFTER_HANDSHAKE)
}
