import { parentPort, workerData } from 'node:worker_threads'
import pg from 'pg'

/** The thread that writes history for the benchmark of event streams, so that its clients do not hold it up. */

/** Each writes by transactions of its own, as many instances do. */
export const WRITERS = 4

export interface WriterOptions {
  readonly url: string
  /** Answers the ids of the lines that it writes. */
  readonly text: string
  readonly values: readonly unknown[]
  readonly durationMs: number
}

export interface Written {
  /** The largest id. */
  readonly id: number
  readonly lines: number
}

if (parentPort !== null) parentPort.postMessage(await write(workerData as WriterOptions), [])

async function write({ url, text, values, durationMs }: WriterOptions): Promise<Written> {
  const clients = Array.from({ length: WRITERS }, () => new pg.Client({ connectionString: url }))
  await Promise.all(clients.map((client) => client.connect()))
  const deadline = performance.now() + durationMs
  let id = 0
  let lines = 0
  const writing = clients.map(async (client) => {
    while (performance.now() < deadline) {
      const { rows } = await client.query<{ id: string }>({ name: 'lines', text, values: [...values] })
      id = Math.max(id, ...rows.map((row) => Number(row.id)))
      lines += rows.length
    }
    await client.end()
  })
  await Promise.all(writing)
  return { id, lines }
}
