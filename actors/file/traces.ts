import { lstatSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { isMissing, type Directory } from './directory.ts'

/**
 * What deliveries leave in the workshop until they are settled, `<delivery>.<fencing number>.<kind>`, and of a delivery of
 * several files `<delivery>.<fencing number>.<file>.<kind>`, each for itself: a draft (`part`) that is not published while
 * it has one name alone; one that was, under `done`; a mark (`naming`) that is set before a draft itself gets the final
 * name, so that a mark without a draft says that it was published; and a draft that a later claim has taken away (`void`).
 */
interface Trace {
  readonly name: string
  readonly deliveryId: number
  readonly fencing: number
  /** Which file of the delivery; null for the only one. */
  readonly file: number | null
  readonly kind: string
}

const TRACE = /^(\d+)\.(\d+)(?:\.(\d+))?\.(part|done|naming|void)$/
/** Looks, for one that changes while it is looked at. */
const MAX_LOOKS = 5

export function tracesOf(workshop: Directory, deliveryId: number | null): Trace[] {
  return readdirSync(workshop.at('.')).flatMap((name) => {
    const [, id, fencing, file, kind = ''] = TRACE.exec(name) ?? []
    if (id === undefined || (deliveryId !== null && Number(id) !== deliveryId)) return []
    const which = file === undefined ? null : Number(file)
    return [{ name, deliveryId: Number(id), fencing: Number(fencing), file: which, kind }]
  })
}

/** Those of all its files. */
export function removeTraces(workshop: Directory, deliveryId: number): void {
  for (const { name } of tracesOf(workshop, deliveryId)) rmSync(workshop.at(name), { force: true })
}

/**
 * Whether an earlier claim of the delivery has published this file of it. Its draft is taken away first: from then on it cannot
 * be published, not even by a process that stood still and comes back.
 */
export function wasPublished(workshop: Directory, deliveryId: number, file: number | null): boolean {
  for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
    const traces = tracesOf(workshop, deliveryId).filter((trace) => trace.file === file)
    const byClaim = Map.groupBy(traces, ({ fencing }) => fencing)
    const found = new Set([...byClaim.values()].map((ofClaim) => judge(workshop, ofClaim)))
    if (found.has('published')) return true
    if (!found.has('moving')) return false
  }
  throw new Error(`The draft of the delivery ${deliveryId} is being published by another process`)
}

function judge(workshop: Directory, traces: readonly Trace[]): 'published' | 'not published' | 'moving' {
  const kinds = new Set(traces.map(({ kind }) => kind))
  if (kinds.has('done')) return 'published'
  const draft = traces.find(({ kind }) => kind === 'part' || kind === 'void')
  if (draft === undefined) return kinds.has('naming') ? 'published' : 'not published'
  const taken = draft.name.replace(/part$/, 'void')
  try {
    if (draft.kind === 'part') renameSync(workshop.at(draft.name), workshop.at(taken))
    return lstatSync(workshop.at(taken)).nlink > 1 ? 'published' : 'not published'
  } catch (thrown) {
    if (isMissing(thrown)) return 'moving'
    throw workshop.told(thrown)
  }
}
