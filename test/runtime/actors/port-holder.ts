import { once } from 'node:events'
import { createServer } from 'node:net'
import type { ActorContext, RunningActor } from '../../../runtime/thread/actor.ts'
import type { ReservedPort } from '../../support/reserved-port.ts'

/** Holds a port of its own as long as its thread lives: of two threads at the same time, one cannot start. */
export default async function start(context: ActorContext<ReservedPort>): Promise<RunningActor> {
  const server = createServer()
  server.listen({ ...context.settings, exclusive: true })
  await once(server, 'listening')
  return {
    stop: async () => {
      server.close()
      await once(server, 'close')
    },
    handle: (request) => {
      if (request === 'break_down') {
        setImmediate(() => {
          throw new Error('the port holder is broken')
        })
      }
      return Promise.resolve(null)
    },
  }
}
