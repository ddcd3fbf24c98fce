import { hash } from 'node:crypto'
import type { Pool } from 'pg'
import type { Clock } from '../../runtime/clock.ts'
import { crashPoint } from '../../runtime/crash-point.ts'
import type { IncomingFile } from '../../runtime/endpoint/endpoint.ts'
import { reasonOf, validationFailure, WaybillError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/log.ts'
import type { PayloadStore } from '../payloads/store.ts'
import { accept, type AcceptedMessage, type NewMessage } from '../sql/accept.ts'
import { committedAmong, isRolledBack } from '../sql/accepted.ts'
import { findSubmission, placeSubmission, type Placement, type Submitted } from '../sql/submission.ts'
import type { Direction } from './states.ts'
import { TakenFile } from './taken-file.ts'

/** The source of messages that are sent by hand. */
const BY_HAND = 'api'

/** By then no statement runs any more whose connection broke: the server ends each after a minute. */
const CERTAIN_AFTER_MS = 120_000

export interface SubmissionsOptions {
  readonly pool: Pool
  readonly payloads: PayloadStore
  readonly clock: Clock
  /** Throws when nothing may be taken in for a target. */
  readonly admit?: (target: string) => void
}

/** A message as somebody sends it by hand. */
export interface Submission {
  readonly from: string
  readonly to: string
  /** Null: the one that the routes between the two name. */
  readonly target: string | null
  /** As the history names who sends it. */
  readonly sender: string
  /** What the sender calls this sending, so that a repeat of the request is no second message; null for none. */
  readonly idempotencyKey: string | null
}

export interface SubmittedMessage {
  readonly id: string
  /** One entry per delivery that was made now; empty for a repeat. */
  readonly targets: readonly string[]
}

/** Takes messages in that are sent by hand: first the file, while it arrives, then what is to be done with it. */
export class Submissions {
  readonly #pool: Pool
  readonly #payloads: PayloadStore
  readonly #clock: Clock
  readonly #admit: (target: string) => void

  constructor({ pool, payloads, clock, admit = () => undefined }: SubmissionsOptions) {
    this.#admit = admit
    this.#pool = pool
    this.#payloads = payloads
    this.#clock = clock
  }

  /** Who takes a file and does not send it, discards it. */
  take(file: IncomingFile): Promise<TakenFile> {
    return TakenFile.take(this.#payloads, file)
  }

  /**
   * Commits the message of one file, or of several, with its delivery. Throws a validation failure on `from`, `to` or `target`, and CONFLICT for a
   * key that belongs to another message.
   */
  async send(
    files: readonly TakenFile[],
    submission: Submission,
    log: Pick<Log, 'warn'>,
  ): Promise<SubmittedMessage> {
    const [only] = files
    if (files.length === 1 && only !== undefined) return this.#send(only, submission, log)
    const whole = await TakenFile.combine(this.#payloads, files)
    try {
      const sent = await this.#send(whole, submission, log)
      for (const file of files) await this.#discard(file, log)
      return sent
    } catch (error) {
      await this.#discard(whole, log)
      throw error
    }
  }

  /** A failure is no reason to fail: what nobody needs is found and removed a day later. */
  async #discard(file: TakenFile, log: Pick<Log, 'warn'>): Promise<void> {
    await file.discard().catch((error: unknown) => {
      log.warn(
        { message: file.messageId, reason: reasonOf(error) },
        'cannot remove a file that is not needed',
      )
    })
  }

  async #send(file: TakenFile, submission: Submission, log: Pick<Log, 'warn'>): Promise<SubmittedMessage> {
    const { idempotencyKey, sender, from, to } = submission
    const duplicateKey = idempotencyKey === null ? null : keyOf(sender, idempotencyKey)
    const known = duplicateKey === null ? null : await findSubmission(this.#pool, duplicateKey)
    if (known !== null) return sameAs(known, file, submission)
    const { direction, target } = placed(submission, await placeSubmission(this.#pool, submission))
    this.#admit(target)
    const { messageId: id, fileName, contentType, stage } = file
    const message: NewMessage = {
      id,
      direction,
      source: BY_HAND,
      from,
      to,
      fileName,
      contentType,
      sizeBytes: stage.size_bytes,
      stages: [stage],
      protocols: {},
      sourceReference: null,
      duplicateKey,
      refusal: null,
      dispatch: true,
      byHand: { target, sender },
    }
    const [accepted] = await this.#committed(file, target, log, () => accept(this.#pool, [message]))
    if (accepted !== undefined) {
      crashPoint('api.message-accepted')
      file.keep()
      return accepted
    }
    // Another request with the same key was faster.
    const faster = duplicateKey === null ? null : await findSubmission(this.#pool, duplicateKey)
    if (faster === null) throw new Error('A message was neither stored nor known')
    return sameAs(faster, file, submission)
  }

  /** An answer of the database that was lost may hide a commit: then the file stays until that is certain. */
  async #committed(
    file: TakenFile,
    target: string,
    log: Pick<Log, 'warn'>,
    commit: () => Promise<readonly AcceptedMessage[]>,
  ): Promise<readonly AcceptedMessage[]> {
    try {
      return await commit()
    } catch (error) {
      if (isRolledBack(error)) throw error
      file.keep()
      const found = await committedAmong(this.#pool, [file.messageId]).catch(() => new Set())
      if (found.has(file.messageId)) return [{ id: file.messageId, status: 'InProgress', targets: [target] }]
      this.#clock.after(CERTAIN_AFTER_MS, () => void this.#removeUncommitted(file.messageId, log))
      throw error
    }
  }

  async #removeUncommitted(messageId: string, log: Pick<Log, 'warn'>): Promise<void> {
    try {
      const found = await committedAmong(this.#pool, [messageId])
      if (!found.has(messageId)) await this.#payloads.delete(messageId)
    } catch (error) {
      log.warn({ message: messageId, reason: reasonOf(error) }, 'cannot remove the file of a failed request')
    }
  }
}

/** The table keeps one message per key, those of partners' transfers among them: ours have four parts. */
function keyOf(sender: string, idempotencyKey: string): Buffer {
  return hash('sha256', JSON.stringify([BY_HAND, 'idempotency-key', sender, idempotencyKey]), 'buffer')
}

/** The message that the same request made before; its file was taken in once more for nothing. */
async function sameAs(known: Submitted, file: TakenFile, submission: Submission): Promise<SubmittedMessage> {
  const { from, to, target } = submission
  const same =
    known.from === from &&
    known.to === to &&
    known.sha256 === file.stage.sha256 &&
    (target === null || known.targets.includes(target))
  if (!same) {
    throw new WaybillError('CONFLICT', 'The Idempotency-Key belongs to another message', { id: known.id })
  }
  await file.discard()
  return { id: known.id, targets: [] }
}

/** Direction and target of a submission, or a validation failure with all that is wrong. */
function placed(
  { from, to, target }: Submission,
  found: Placement,
): { readonly direction: Direction; readonly target: string } {
  const details: Record<string, string> = {}
  if (found.direction === null) {
    if (!found.from_known) details['from'] = `there is no party ${from}`
    if (!found.to_known) details['to'] = `there is no party ${to}`
    if (found.from_known && found.to_known) {
      const rule = 'one of from and to must be an organization and the other a partner'
      details['from'] = rule
      details['to'] = rule
    }
  }
  if (target !== null && found.target_role === null) {
    details['target'] = `there is no plugin instance ${target}`
  } else if (target !== null && found.target_role !== 'target') {
    details['target'] = `the plugin instance ${target} is no target`
  }
  const { direction } = found
  if (direction === null || Object.keys(details).length > 0) throw validationFailure(details)
  const [routed, ...others] = found.routed
  if (target !== null) return { direction, target }
  if (routed === undefined)
    throw validationFailure({ target: `no route from ${from} to ${to} names a target: name one` })
  if (others.length === 0) return { direction, target: routed }
  throw validationFailure({
    target: `the routes from ${from} to ${to} name several targets, name one of them: ${found.routed.join(', ')}`,
  })
}
