import cluster from 'node:cluster'
import {
  constants,
  createDecipheriv,
  createPrivateKey,
  createPublicKey,
  privateDecrypt,
  sign,
  verify,
} from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { availableParallelism } from 'node:os'
import { buffer } from 'node:stream/consumers'
import pg from 'pg'
import type { MessageFacts } from './as2-prepared.ts'

/**
 * What receiving is measured against: one process a core that takes the same bytes over HTTP, decrypts the key (RSA) and
 * the content (AES), verifies a signature over it, signs an answer (RSA), and commits one insert that holds the payload.
 * It parses nothing and checks nothing else. Prints where it listens.
 */

/** In the environment, as JSON. */
export interface LimitOptions {
  readonly databaseUrl: string
  readonly facts: MessageFacts
  /** PEM. */
  readonly privateKey: string
  /** PEM of the partner's key. */
  readonly publicKey: string
  /** As long as a receipt is. */
  readonly answer: string
}

const CONNECTIONS = 10

async function lead(): Promise<void> {
  const workers = Array.from({ length: availableParallelism() }, () => cluster.fork())
  const ports = await Promise.all(
    workers.map(async (worker) => {
      const [{ port }] = (await once(worker, 'listening')) as [AddressInfo]
      return port
    }),
  )
  console.log(`limit listens on http://127.0.0.1:${ports[0]}`)
  process.once('SIGTERM', () => {
    for (const worker of workers) worker.process.kill('SIGKILL')
    process.exit(0)
  })
}

function work({ databaseUrl, facts, privateKey, publicKey, answer }: LimitOptions): void {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: CONNECTIONS })
  const ours = { key: createPrivateKey(privateKey), padding: constants.RSA_PKCS1_PADDING }
  const theirs = createPublicKey(publicKey)
  const iv = Buffer.from(facts.iv, 'base64')
  const signature = Buffer.from(facts.signature, 'base64')
  const receipt = Buffer.from(answer)
  const insert = { name: 'insert', text: 'insert into received (bytes) values ($1)' }

  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await buffer(request)
    const { keyAt, keyBytes, contentAt, contentBytes } = facts
    const key = privateDecrypt(ours, body.subarray(keyAt, keyAt + keyBytes))
    const decipher = createDecipheriv('aes-256-cbc', key, iv)
    const first = decipher.update(body.subarray(contentAt, contentAt + contentBytes))
    const content = Buffer.concat([first, decipher.final()])
    if (!verify('sha256', content, theirs, signature)) throw new Error('The signature is not good')
    const signed = sign('sha256', receipt, ours)
    await pool.query({ ...insert, values: [body] })
    response.writeHead(200, { 'Content-Length': receipt.length, 'X-Signature': signed.toString('base64') })
    response.end(receipt)
  }
  const server = createServer((request, response) => {
    take(request, response).catch((error: unknown) => {
      response.writeHead(500)
      response.end(String(error))
    })
  })
  server.listen({ port: 0, host: '127.0.0.1' })
}

if (cluster.isPrimary) await lead()
else work(JSON.parse(process.env['LIMIT'] ?? '') as LimitOptions)
