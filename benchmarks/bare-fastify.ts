import { fastify } from 'fastify'
import pg from 'pg'

/**
 * What the API is measured against: Fastify alone with one prepared statement a request, the same as the API's, over
 * the same driver and as many connections. Prints its port.
 */

const CONNECTIONS = 10
const COLUMNS = 'id, name, display_name, created_at, updated_at'

const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'], max: CONNECTIONS })
const server = fastify()

const one = async (id: string) => {
  const text = `select ${COLUMNS} from organization where id = $1`
  const { rows } = await pool.query<object>({ name: 'get', text, values: [id] })
  return { data: rows[0], error: null }
}

server.get<{ Params: { id: string } }>('/organizations/:id', (request) => one(request.params.id))

server.get('/organizations', async () => {
  const text = `select ${COLUMNS}, (select count(*)::int from organization) as total
    from organization order by name limit 20`
  const { rows } = await pool.query<object>({ name: 'list', text })
  return { data: { organizations: rows }, error: null }
})

server.post<{ Body: { name: string; display_name: string } }>('/organizations', async (request, reply) => {
  const { name, display_name } = request.body
  const text = `insert into organization (name, display_name, created_at, updated_at) values ($1, $2, $3, $3)
    returning ${COLUMNS}`
  const { rows } = await pool.query<object>({
    name: 'create',
    text,
    values: [name, display_name, new Date()],
  })
  return reply.code(201).send({ data: rows[0], error: null })
})

const address = await server.listen({ port: 0, host: '127.0.0.1' })
console.log(`bare listens on ${address}`)
process.once('SIGTERM', () => process.exit(0))
