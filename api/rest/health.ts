import type { Pool } from 'pg'
import { z } from 'zod'
import type { Clock } from '../../runtime/clock.ts'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { timestamp } from '../../runtime/endpoint/paging.ts'
import type { IntakeGate } from '../../storage/exchange/intake-gate.ts'
import { LivenessCheck, type Liveness } from '../../storage/postgres/liveness.ts'

/** `/health`: public and without the envelope. */

const answer = z
  .object({
    status: z
      .enum(['healthy', 'unhealthy'])
      .describe('Whether the service can work: it needs its database and its payload store.'),
    timestamp: timestamp.describe('When the question was answered.'),
    database: z.enum(['up', 'down']).describe('Whether the database answered in time.'),
    problems: z
      .array(z.string())
      .optional()
      .describe(
        'What is wrong, in words; left out when nothing is. A queue that is too long is told here, and the service is healthy all the same: it holds back alone what feeds that queue.',
      )
      .meta({ examples: [['The database does not answer']] }),
  })
  .meta({ id: 'Health', description: 'How the service is. The one JSON answer without the envelope.' })

/** A load balancer asks every few seconds; a database that answers later than this is of no use either. */
const DATABASE_LIMIT_MS = 2_000

export interface HealthServices {
  readonly pool: Pool
  readonly clock: Clock
  readonly intake: Pick<IntakeGate, 'payloadProblem' | 'queueProblems'>
}

export function healthEndpoint(services: HealthServices): Endpoint {
  const { pool, clock, intake } = services
  const database = new LivenessCheck(pool, DATABASE_LIMIT_MS)
  let wasUp = true
  return endpoint({
    method: 'GET',
    path: '/health',
    operationId: 'getHealth',
    summary: 'Ask whether the service works',
    description: `Made for load balancers: needs no credential, and answers within ${DATABASE_LIMIT_MS / 1000} seconds also when the database hangs.`,
    tag: 'Server',
    public: true,
    answer: {
      kind: 'bare',
      schema: answer,
      descriptions: {
        200: 'The service works.',
        503: 'The database does not answer, or payloads cannot be stored.',
      },
    },
    handle: async ({ log }) => {
      const found = await inTime(database.ask(), clock)
      // What lasts is told once, and its end too.
      if (wasUp && !found.up) log.warn({ reason: found.reason }, 'The database does not answer')
      if (!wasUp && found.up) log.info('The database answers again')
      wasUp = found.up
      const now = clock.now().toISOString()
      const { payloadProblem, queueProblems } = intake
      const isHealthy = found.up && payloadProblem === null
      const problems = [found.up ? null : 'The database does not answer', payloadProblem, ...queueProblems]
      const told = problems.filter((problem) => problem !== null)
      const body: z.output<typeof answer> = {
        status: isHealthy ? 'healthy' : 'unhealthy',
        timestamp: now,
        database: found.up ? 'up' : 'down',
        ...(told.length === 0 ? {} : { problems: told }),
      }
      return { status: isHealthy ? 200 : 503, body }
    },
  })
}

/** A question that is open for long is no answer to who asks now. */
async function inTime(asked: Promise<Liveness>, clock: Clock): Promise<Liveness> {
  const late = Promise.withResolvers<Liveness>()
  const cancel = clock.after(DATABASE_LIMIT_MS, () =>
    late.resolve({ up: false, reason: 'No answer in time' }),
  )
  try {
    return await Promise.race([asked, late.promise])
  } finally {
    cancel()
  }
}
