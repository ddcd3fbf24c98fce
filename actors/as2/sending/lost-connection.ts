import type { ClientRequest } from 'node:http'
import type { Socket } from 'node:net'
import { codeOf } from '../connection-check/words.ts'

/** How a connection ends that the other side, or a firewall between, has forgotten. */
const LOST: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED'])

/** A connection that had served before was lost before a byte of the answer came. */
export class LostConnection extends Error {
  override readonly name = 'LostConnection'
}

/**
 * To be called at once, when nothing has happened yet; answers whether an error of the connection says no more than that a
 * kept one was lost. Nobody hears of that before something is sent over it, and the server need not have seen the request.
 */
export function lossWitness(request: ClientRequest): (error: Error) => boolean {
  let socket: Socket | null = null
  let readBefore = 0
  request.once('socket', (given) => {
    socket = given
    readBefore = given.bytesRead
  })
  return (error) => request.reusedSocket && socket?.bytesRead === readBefore && LOST.has(codeOf(error))
}
