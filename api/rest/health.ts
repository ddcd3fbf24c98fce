import type { Pool } from 'pg'
import { z } from 'zod'
import type { Clock } from '../../runtime/clock.ts'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { reasonOf } from '../../runtime/errors.ts'
import { timestamp } from '../../runtime/endpoint/paging.ts'

/** `/health`: public and without the envelope. */

const answer = z
  .object({
    status: z.enum(['healthy', 'unhealthy']),
    timestamp,
    database: z.enum(['up', 'down']),
  })
  .meta({ id: 'Health' })

/** A load balancer asks every few seconds; a database that answers later than this is of no use either. */
const DATABASE_TIMEOUT_MS = 2_000

export function healthEndpoint(services: { readonly pool: Pool; readonly clock: Clock }): Endpoint {
  const { pool, clock } = services
  return endpoint({
    method: 'GET',
    path: '/health',
    operationId: 'getHealth',
    summary: 'Ask whether the service works',
    tag: 'Server',
    public: true,
    answer: {
      kind: 'bare',
      schema: answer,
      descriptions: { 200: 'The service works.', 503: 'The database does not answer.' },
    },
    handle: async ({ log }) => {
      const up = await answers(pool, clock, (reason) => log.warn({ reason }, 'The database does not answer'))
      const now = clock.now().toISOString()
      const body: z.output<typeof answer> = up
        ? { status: 'healthy', timestamp: now, database: 'up' }
        : { status: 'unhealthy', timestamp: now, database: 'down' }
      return { status: up ? 200 : 503, body }
    },
  })
}

/** Whether one statement comes back in time. */
async function answers(pool: Pool, clock: Clock, tell: (reason: string) => void): Promise<boolean> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const cancel = clock.after(DATABASE_TIMEOUT_MS, () => reject(new Error('No answer in time')))
  try {
    await Promise.race([pool.query('select 1'), late])
    return true
  } catch (thrown) {
    tell(reasonOf(thrown))
    return false
  } finally {
    cancel()
  }
}
