import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { EmbeddedServer } from '../storage/postgres/embedded.ts'
import type { As2Loop } from '../test/support/as2-loop.ts'
import type { LimitOptions } from './as2-limit.ts'
import { ediText, factsOfMessage, type PreparedMessage } from './as2-prepared.ts'
import { connected, countOf, urlOf } from './bench-database.ts'
import type { Receiver } from './receivers.ts'

const LIMIT = fileURLToPath(new URL('./as2-limit.ts', import.meta.url))
const RECEIPT_BYTES = 3_000

/** Starts the minimal program (as2-limit.ts) on a database of its own. */
export async function startLimit(
  server: EmbeddedServer,
  { loop, message }: { readonly loop: As2Loop; readonly message: PreparedMessage },
  running: AsyncDisposableStack,
): Promise<Receiver> {
  const { acme, globex } = loop
  await (await connected(server, 'postgres', running)).query('create database bare owner waybill')
  const database = await connected(server, 'bare', running)
  await database.query(
    'create table received (id bigint generated always as identity primary key, bytes bytea)',
  )
  await database.query('alter table received alter bytes set storage external, owner to waybill')
  const options: LimitOptions = {
    databaseUrl: urlOf(server.url, 'bare'),
    facts: factsOfMessage(message.body, { from: acme.keys, to: globex.keys }),
    privateKey: globex.keys.privateKeyPem,
    publicKey: acme.keys.publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    answer: ediText(RECEIPT_BYTES).toString(),
  }
  const child = spawn(process.execPath, [LIMIT], {
    env: { PATH: process.env['PATH'], LIMIT: JSON.stringify(options) },
    stdio: ['ignore', 'pipe', 'inherit'],
    // As Waybill is started: the kernel shares a busy processor among sessions first.
    detached: true,
  })
  const ended = once(child, 'exit')
  running.defer(async () => {
    child.kill('SIGTERM')
    await ended
  })
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  return {
    name: 'limit',
    url: / (http:\S+)$/.exec(line)?.[1] ?? '',
    pid: child.pid ?? 0,
    message,
    signer: null,
    count: () => countOf(database, 'received'),
  }
}
