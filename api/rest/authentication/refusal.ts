import { WaybillError } from '../../../runtime/errors.ts'

/**
 * The one refusal of a token. The answer never says what is wrong with it; the reason is for the log, and holds nothing
 * of the token but what it claims of its issuer.
 */
export class InvalidToken extends WaybillError {
  readonly reason: string

  constructor(reason: string) {
    super('INVALID_TOKEN', 'The token is not valid')
    this.reason = reason
  }
}
