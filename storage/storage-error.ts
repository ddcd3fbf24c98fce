import { OperatorError } from '../runtime/errors.ts'

/**
 * What storage stands on cannot be used: a database, a directory, a key. The message is one sentence for the
 * operator, without credentials; whoever starts the process prints it alone.
 */
export class StorageError extends OperatorError {
  override readonly name = 'StorageError'
}
