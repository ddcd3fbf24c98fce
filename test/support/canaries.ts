import { randomBytes } from 'node:crypto'
import { Writable } from 'node:stream'
import type { Pool } from 'pg'
import { pino } from 'pino'
import type { Log } from '../../runtime/log.ts'
import type { Answer } from './client.ts'

const MARK = 'canary'

/** Secrets that are sent somewhere, each unique, and everything that was told since: they must not meet. */
export class Canaries {
  /** Every secret, with where it was sent. */
  readonly #places = new Map<string, string>()
  /** Every answer with its headers. */
  readonly answers: string[] = []
  /** Every line of the log, down to `trace`. */
  readonly lines: string[] = []
  readonly log: Log = pino(
    { level: 'trace' },
    new Writable({
      write: (chunk, _encoding, done) => {
        this.lines.push(String(chunk))
        done()
      },
    }),
  )

  /** A new secret for this place. */
  make(place: string): string {
    const secret = `${MARK}${randomBytes(12).toString('hex')}`
    this.add(secret, place)
    return secret
  }

  add(secret: string, place: string): void {
    this.#places.set(secret, place)
  }

  get size(): number {
    return this.#places.size
  }

  seen(answer: Answer): Answer {
    this.answers.push(`${answer.status} ${JSON.stringify([...answer.headers])} ${answer.text}`)
    return answer
  }

  /** The places whose secret is in a text: as it is, encoded, or a part of it. */
  leaksIn(text: string): readonly string[] {
    return [...this.#places].flatMap(([secret, place]) =>
      spellings(secret).some((spelling) => text.includes(spelling)) ? [place] : [],
    )
  }

  /** The places whose secret is not found where all of them are, in clear, in hexadecimal or in base64. */
  missed(): readonly string[] {
    const all = [...this.#places.keys()].join(' ')
    const hidden = [all, Buffer.from(all).toString('hex')]
    for (const ahead of ['', 'x', 'xx']) hidden.push(Buffer.from(ahead + all).toString('base64'))
    return hidden.flatMap((text) => {
      const found = new Set(this.leaksIn(text))
      return [...this.#places.values()].filter((place) => !found.has(place))
    })
  }
}

function spellings(secret: string): readonly string[] {
  const bytes = Buffer.from(secret)
  return [
    secret,
    secret.slice(0, 12),
    secret.slice(-12),
    bytes.toString('hex'),
    // Whatever stands before it, one of three shifts is how base64 has it.
    ...[0, 1, 2].map((shift) =>
      bytes.subarray(shift, -3).toString('base64').replace(/.=*$/, '').slice(0, 16),
    ),
  ]
}

/** Every row of every table, as text: bytes are hexadecimal there. */
export async function columnsOf(pool: Pool): Promise<string> {
  const { rows: tables } = await pool.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname not in ('pg_catalog', 'information_schema')`,
  )
  let text = ''
  for (const { name } of tables) {
    const { rows } = await pool.query<{ row: string }>(`select t::text as row from ${name} t`)
    text += rows.map(({ row }) => `${name} ${row}\n`).join('')
  }
  return text
}
