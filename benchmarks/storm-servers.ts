import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { json } from 'node:stream/consumers'
import type { AlertPost } from '../actors/notifications/formats/generic.ts'

/** The servers that a storm of alerts needs: partners who take messages or refuse them, and the webhook. */

/** A partner who is down says so after this long, which spreads his failures over the storm. */
export const REFUSAL_MS = 100
const SLOW_MS = 3_000

export interface Partner {
  readonly url: string
  /** How many messages were answered so far. */
  readonly answered: () => number
  /** When the first one was, since the last reset. */
  readonly firstMs: () => number | null
  readonly reset: () => void
}

/** Answers every message with this status, after so long. */
export async function startPartner(
  { status, afterMs }: { readonly status: number; readonly afterMs: number },
  running: AsyncDisposableStack,
): Promise<Partner> {
  let count = 0
  let firstMs: number | null = null
  const url = await listen((request, response) => {
    request.resume()
    request.on('end', () => {
      setTimeout(() => {
        firstMs ??= performance.now()
        count += 1
        response.writeHead(status).end()
      }, afterMs)
    })
  }, running)
  return {
    url,
    answered: () => count,
    firstMs: () => firstMs,
    reset: () => {
      count = 0
      firstMs = null
    },
  }
}

export interface Post {
  readonly atMs: number
  readonly status: number
  readonly webhookId: string
  readonly body: AlertPost
}

export interface Webhook {
  readonly url: string
  /** All posts since the last reset, with their answers. */
  readonly posts: readonly Post[]
  /** From its next post on it is slow for so long, then it fails for as long, then it is well. */
  readonly reset: (phaseMs: number) => void
}

/** Answers slowly at first, then with 500, then well. */
export async function startWebhook(running: AsyncDisposableStack): Promise<Webhook> {
  const posts: Post[] = []
  let phaseMs = 0
  let beganMs: number | null = null
  const url = await listen((request, response) => {
    const atMs = performance.now()
    beganMs ??= atMs
    const sinceMs = atMs - beganMs
    const isSlow = sinceMs < phaseMs
    const status = !isSlow && sinceMs < 2 * phaseMs ? 500 : 200
    const answer = async (): Promise<void> => {
      const body = (await json(request)) as AlertPost
      posts.push({ atMs, status, webhookId: String(request.headers['webhook-id']), body })
      if (isSlow) await sleep(SLOW_MS)
      response.writeHead(status).end()
    }
    answer().catch(() => response.destroy())
  }, running)
  return {
    url,
    posts,
    reset: (lastsMs) => {
      phaseMs = lastsMs
      posts.length = 0
      beganMs = null
    },
  }
}

async function listen(listener: RequestListener, running: AsyncDisposableStack): Promise<string> {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  running.defer(async () => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/in`
}
