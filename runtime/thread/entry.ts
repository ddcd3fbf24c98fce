import { parentPort, workerData } from 'node:worker_threads'
import { Announcer } from '../channel/announcer.ts'
import { Gathered } from '../channel/gathered.ts'
import { Listener } from '../channel/listener.ts'
import type { Birth, FromThread, ToThread } from '../channel/protocol.ts'
import { Responder } from '../channel/responder.ts'
import { systemClock } from '../clock.ts'
import { Condition } from './condition.ts'
import { reasonOf, toErrorData } from '../errors.ts'
import { createLog } from '../log.ts'
import type { ActorContext, RunningActor, StartActor } from './actor.ts'

/** The inside of an instance's thread: loads the actor, starts it, and speaks with the supervisor for it. */

if (parentPort === null) throw new Error('This file is the entry of a worker thread')
const supervisor = parentPort
const birth = workerData as Birth
const log = createLog(birth.logLevel, { type: birth.type, name: birth.name })
const stopping = new AbortController()

const post = (message: FromThread): void => supervisor.postMessage(message, [])
const announcer = new Announcer({
  window: birth.creditWindow,
  seek: (target) => post({ kind: 'seek', target }),
  signal: stopping.signal,
})
const elsewhere = new Gathered((target) => post({ kind: 'announced', target }))
const listener = new Listener()
const condition = new Condition((text) => post({ kind: 'condition', text }))
let heldBack = birth.heldBack
const responder = new Responder(post, async (body, signal) => {
  const actor = await starting
  if (actor?.handle === undefined) throw new Error(`An instance of ${birth.type} answers no requests`)
  return actor.handle(body, signal)
})

const context: ActorContext = {
  type: birth.type,
  name: birth.name,
  node: birth.node,
  generation: birth.generation,
  settings: birth.settings,
  process: birth.process,
  log,
  clock: systemClock,
  signal: stopping.signal,
  announce: (target, count) => {
    if (count > 0) elsewhere.note(target)
    return announcer.announce(target, count)
  },
  heldBack: () => heldBack,
  tellCondition: (text) => condition.note(text),
  onAnnouncement: (handler) => listener.onAnnouncement(handler),
  settled: (count) => listener.settled(count),
  drained: () => listener.drained(),
  fail: reportFailure,
}

setInterval(() => post({ kind: 'heartbeat' }), birth.heartbeatMs)
supervisor.on('message', receive)
const starting = start()

async function start(): Promise<RunningActor | null> {
  try {
    const actor = await (await loadActor(birth.actor))(context)
    post({ kind: 'ready' })
    return actor
  } catch (error) {
    reportFailure(error)
    return null
  }
}

async function loadActor(url: string): Promise<StartActor> {
  const file: unknown = await import(url)
  if (!hasDefault(file) || typeof file.default !== 'function') {
    throw new Error(`${url} has no default export that starts an actor`)
  }
  return file.default as StartActor
}

function hasDefault(file: unknown): file is { readonly default: unknown } {
  return typeof file === 'object' && file !== null && 'default' in file
}

function reportFailure(thrown: unknown): void {
  const stack = thrown instanceof Error ? (thrown.stack ?? null) : null
  post({ kind: 'failed', error: toErrorData(thrown), stack })
}

function receive(message: ToThread): void {
  switch (message.kind) {
    case 'stop':
      void stop()
      return
    case 'request':
      void responder.answer(message)
      return
    case 'cancellation':
      responder.cancel(message)
      return
    case 'introduction':
      announcer.introduce(message.target, message.port)
      return
    case 'connection':
      listener.connect(message.port)
      return
    case 'announcement':
      listener.announced(message.count)
      return
    case 'intake':
      heldBack = message.heldBack
      return
  }
}

async function stop(): Promise<void> {
  if (stopping.signal.aborted) return
  stopping.abort()
  listener.close()
  const actor = await starting
  let failure: unknown = null
  try {
    await actor?.stop()
  } catch (error) {
    failure = error
    log.error({ err: error }, `cannot stop in order: ${reasonOf(error)}`)
  }
  post({ kind: 'stopped', error: failure === null ? null : toErrorData(failure) })
  // Ends this thread alone. What the actor left open must not keep it.
  process.exit(0)
}
