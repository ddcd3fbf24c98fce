import { validationFailure, type WaybillError } from '../../../runtime/errors.ts'

/** Why an upload is refused: the errors of the readers, and the answers that they become. */

/** The part of the upload that is to blame. */
export type Part = 'certificate' | 'private_key'

/** The content does not open: another password, or damaged. */
export class WrongPasswordError extends Error {
  override readonly name = 'WrongPasswordError'
}

/** It is not built as its format says. The message continues the sentence `it cannot be read:`. */
export class UnreadableError extends Error {
  override readonly name: string = 'UnreadableError'
}

/** We understand what it is and do not take it. The message continues the sentence `it cannot be used:`. */
export class UnusableError extends Error {
  override readonly name: string = 'UnusableError'
}

/** A bound of the whole upload: leaving one of its items out does not help. */
export class TooMuchError extends UnusableError {
  override readonly name = 'TooMuchError'
}

/** The validation failure that tells what a reader has thrown. Nothing of the file's content is in it. */
export function refusalOf(part: Part, thrown: unknown, password: string): WaybillError {
  if (thrown instanceof WrongPasswordError) {
    const text = password === '' ? 'is required to open the file' : 'does not open the file'
    return validationFailure({ password: text })
  }
  return validationFailure({ [part]: reasonIn(thrown) })
}

function reasonIn(thrown: unknown): string {
  if (thrown instanceof UnusableError) return `the file cannot be used: ${thrown.message}`
  if (thrown instanceof UnreadableError) return `the file cannot be read: ${thrown.message}`
  return 'the file cannot be read: it is damaged'
}
