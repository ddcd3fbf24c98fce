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

/** The driver's own error says it, and the ORM's around it too. */
function violatedConstraint(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown)) return undefined
  if (thrown.code !== UNIQUE_VIOLATION && thrown.code !== FOREIGN_KEY_VIOLATION) return undefined
  return 'constraint' in thrown && typeof thrown.constraint === 'string' ? thrown.constraint : undefined
}
