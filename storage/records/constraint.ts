import { DriverException } from '@mikro-orm/core'

/** SQLSTATE of what the database refused. */
const UNIQUE_VIOLATION = '23505'
const FOREIGN_KEY_VIOLATION = '23503'

/**
 * Runs a write and turns the violation of a named constraint into our own refusal. The database has the last word
 * on what two requests at once cannot see of each other.
 */
export async function refusingViolations<T>(
  refusals: Readonly<Record<string, () => Error>>,
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write()
  } catch (thrown) {
    const constraint = violatedConstraint(thrown)
    const refusal = constraint === undefined ? undefined : refusals[constraint]
    throw refusal === undefined ? thrown : refusal()
  }
}

function violatedConstraint(thrown: unknown): string | undefined {
  if (!(thrown instanceof DriverException)) return undefined
  if (thrown.code !== UNIQUE_VIOLATION && thrown.code !== FOREIGN_KEY_VIOLATION) return undefined
  return 'constraint' in thrown && typeof thrown.constraint === 'string' ? thrown.constraint : undefined
}
