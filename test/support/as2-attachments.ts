import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import type { Teardown } from './database.ts'
import { reservePort } from './reserved-port.ts'
import type { Waybill } from './waybill.ts'

/** What a program behind an `http-poster` was given. */
export interface Post {
  readonly contentType: string
  readonly body: Buffer
}

/** A program that every message of the receiver is posted to as well. */
export async function startProgram(
  t: Teardown,
  waybill: Waybill,
  settings: object = {},
): Promise<readonly Post[]> {
  const posts: Post[] = []
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await buffer(request)
    posts.push({ contentType: request.headers['content-type'] ?? '', body })
    response.writeHead(204).end()
  }
  const server = createServer((request, response) => {
    take(request, response).catch(() => response.destroy())
  })
  const place = await reservePort()
  server.listen(place)
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://${place.host}:${place.port}/in`
  const retry = { retry_initial_seconds: 1, retry_max_seconds: 2, retry_max_attempts: 50 }
  await waybill.request('POST', '/plugins/configs?type=http-poster', {
    name: 'program',
    url,
    ...retry,
    ...settings,
  })
  await waybill.request('POST', '/routes', { source_plugin: 'receiver', target_plugin: 'program' })
  await waybill.request('POST', '/services/http-poster/program/start')
  return posts
}

/** Sends files by hand, through a form as a browser makes it. */
export async function sendFiles(
  waybill: Waybill,
  fields: Readonly<Record<string, string>>,
  files: readonly File[],
): Promise<string> {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.set(name, value)
  for (const file of files) form.append('file', file)
  const headers = { 'x-requested-with': 'waybill' }
  const response = await fetch(`${waybill.url}/api/v1/messages`, { method: 'POST', headers, body: form })
  const answer = await response.text()
  if (response.status !== 201) throw new Error(answer)
  return (JSON.parse(answer) as { data: { id: string } }).data.id
}
