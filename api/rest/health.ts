import type { Pool } from 'pg'
import { z } from 'zod'
import type { Clock } from '../../runtime/clock.ts'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { timestamp } from '../../runtime/endpoint/paging.ts'
import { LivenessCheck, type Liveness } from '../../storage/postgres/liveness.ts'

/** `/health`: public and without the envelope. */

const answer = z
  .object({
    status: z.enum(['healthy', 'unhealthy']).describe('Whether the service can work: it needs its database.'),
    timestamp: timestamp.describe('When the question was answered.'),
    database: z.enum(['up', 'down']).describe('Whether the database answered in time.'),
  })
  .meta({ id: 'Health', description: 'How the service is. The one JSON answer without the envelope.' })

/** A load balancer asks every few seconds; a database that answers later than this is of no use either. */
const DATABASE_LIMIT_MS = 2_000

export function healthEndpoint(services: { readonly pool: Pool; readonly clock: Clock }): Endpoint {
  const { pool, clock } = services
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
      descriptions: { 200: 'The service works.', 503: 'The database does not answer.' },
    },
    handle: async ({ log }) => {
      const found = await inTime(database.ask(), clock)
      // What lasts is told once, and its end too.
      if (wasUp && !found.up) log.warn({ reason: found.reason }, 'The database does not answer')
      if (!wasUp && found.up) log.info('The database answers again')
      wasUp = found.up
      const now = clock.now().toISOString()
      const body: z.output<typeof answer> = found.up
        ? { status: 'healthy', timestamp: now, database: 'up' }
        : { status: 'unhealthy', timestamp: now, database: 'down' }
      return { status: found.up ? 200 : 503, body }
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
