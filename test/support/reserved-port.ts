import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Where something will listen later, again and again. */
export interface ReservedPort {
  readonly host: string
  readonly port: number
}

/** Below what any system hands out by itself, and above what services are known by. */
const LOWEST_PORT = 20_000
const HIGHEST_PORT = 30_000
const TRIES = 100

/**
 * A place on loopback that nobody else takes while nobody listens there. A port that the system hands out would not do:
 * freed for a moment, it is handed out again, to another test or to a connection. Where all of 127.0.0.0/8 is loopback,
 * the address is random, too.
 */
export async function reservePort(): Promise<ReservedPort> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const place = { host: loopbackAddress(), port: randomInt(LOWEST_PORT, HIGHEST_PORT) }
    if (await isFree(place)) return place
  }
  throw new Error('No free port on loopback')
}

function loopbackAddress(): string {
  return process.platform === 'linux'
    ? `127.${randomInt(1, 255)}.${randomInt(0, 256)}.${randomInt(1, 255)}`
    : '127.0.0.1'
}

async function isFree(place: ReservedPort): Promise<boolean> {
  const probe = createServer()
  try {
    probe.listen({ ...place, exclusive: true })
    await once(probe, 'listening')
  } catch {
    return false
  }
  probe.close()
  await once(probe, 'close')
  return true
}
