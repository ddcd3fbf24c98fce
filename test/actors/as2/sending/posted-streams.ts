import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import type { StreamedBody } from '../../../../actors/as2/sending/http-body.ts'
import { HttpClient, type Post } from '../../../../actors/as2/sending/http-client.ts'
import { httpServer, type PartnerServer } from '../../../support/partner-server.ts'

/** Posts of streams, and the partners that take them. */

/** Far beyond what any of these should take. */
const LONG_MS = 600_000

/** Where it matters that a server answers before its time is over, that is far away. */
export function client(t: Test, continueWaitMs = LONG_MS): HttpClient {
  const made = new HttpClient(2, { continueWaitMs })
  t.teardown(() => made.close())
  return made
}

export const post = (port: number, body: Post['body'], more: Partial<Post> = {}): Post => ({
  url: `http://127.0.0.1:${port}/as2`,
  tls: {},
  headers: [['AS2-From', 'ACME']],
  body,
  connectTimeoutMs: LONG_MS,
  responseTimeoutMs: LONG_MS,
  signal: new AbortController().signal,
  ...more,
})

/** A partner that takes its time to answer. */
export function partner(
  t: Test,
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
  asked?: RequestListener,
): Promise<PartnerServer> {
  return httpServer(t, (request, response) => void answer(request, response), asked)
}

/** Chunks of 64 KiB, each filled with its number; `made` counts those that were asked for. */
export function numbered(chunks: number, changes: Partial<StreamedBody> = {}) {
  const state = { made: 0, ended: 0, opened: 0 }
  async function* open(): AsyncGenerator<Buffer> {
    state.opened += 1
    try {
      for (let index = 0; index < chunks; index += 1) {
        state.made += 1
        yield Buffer.alloc(65_536, index % 251)
      }
    } finally {
      state.ended += 1
    }
  }
  return { state, body: { open, length: null, asksFirst: false, disposable: true, ...changes } }
}

export const whole = (chunks: number): Buffer =>
  Buffer.concat(Array.from({ length: chunks }, (_, index) => Buffer.alloc(65_536, index % 251)))
