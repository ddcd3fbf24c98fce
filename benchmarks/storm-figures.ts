import { median } from './statistics.ts'
import { KINDS, NOTIFIER, type Kind } from './storm-checks.ts'

/** All failures are to come within it. */
const STORM_SECONDS = 60
const LEAST_SHARE = 0.95
const FIRST_ALERT_MS = 2_000
const MORE_MEMORY_BYTES = 100e6

/** What was measured in one storm. */
export interface Storm {
  readonly seconds: number
  /** Deliveries that succeed a second, while others fail. */
  readonly rate: number
  readonly cpuMs: number
  readonly peakBytes: number
  /** From the answer that failed the first delivery to the first post. Null without a notifier. */
  readonly firstAlertMs: number | null
  readonly posts: number
}

export type StormsByKind = ReadonlyMap<Kind, Storm>

/** The whole storms, and the rounds of shorter ones. What is compared is so within each round, and its median is told. */
export function figuresOf(whole: StormsByKind, rounds: readonly StormsByKind[]): Record<string, number> {
  const figures: Record<string, number> = {}
  for (const kind of KINDS) {
    const all = [whole, ...rounds].map((storms) => of(storms, kind))
    const inRounds = rounds.map((storms) => of(storms, kind))
    figures[`${kind}_seconds_of_storm`] = of(whole, kind).seconds
    figures[`${kind}_succeeded_per_second`] = median(inRounds.map(({ rate }) => rate))
    figures[`${kind}_cpu_ms_per_delivery`] = median(inRounds.map(({ cpuMs }) => cpuMs))
    figures[`${kind}_peak_mb`] = Math.max(...all.map(({ peakBytes }) => peakBytes)) / 1e6
    if (kind === 'without') continue
    // What else the machine has to do changes more slowly than the rounds.
    const shares = rounds.map((storms) => of(storms, kind).rate / of(storms, 'without').rate)
    figures[`${kind}_share_of_throughput`] = median(shares)
    figures[`${kind}_least_share`] = Math.min(...shares)
    figures[`${kind}_largest_share`] = Math.max(...shares)
    figures[`${kind}_times_the_cpu`] = median(
      rounds.map((storms) => of(storms, kind).cpuMs / of(storms, 'without').cpuMs),
    )
    figures[`${kind}_worst_first_alert_ms`] = Math.max(...all.map(({ firstAlertMs }) => firstAlertMs ?? 0))
    figures[`${kind}_posts`] = of(whole, kind).posts
  }
  return figures
}

function of(storms: StormsByKind, kind: Kind): Storm {
  const storm = storms.get(kind)
  if (storm === undefined) throw new Error(`There was no storm ${kind}`)
  return storm
}

/** What was to be held and was not, each as a sentence. */
export function limits(figures: Readonly<Record<string, number>>): string[] {
  const figure = (name: string): number => figures[name] ?? 0
  const failures: string[] = []
  const slowest = Math.max(...KINDS.map((kind) => figure(`${kind}_seconds_of_storm`)))
  if (slowest > STORM_SECONDS) failures.push(`the storm took ${slowest.toFixed(0)} seconds`)
  for (const kind of KINDS.filter((each) => each !== 'without')) {
    const share = figure(`${kind}_share_of_throughput`)
    if (share < LEAST_SHARE) failures.push(`${kind}: ${share.toFixed(3)} of the throughput is left`)
    const allowedMs = FIRST_ALERT_MS + (NOTIFIER[kind]?.group_seconds ?? 0) * 1000
    const firstMs = figure(`${kind}_worst_first_alert_ms`)
    if (firstMs > allowedMs) failures.push(`${kind}: the first alert came after ${firstMs.toFixed(0)} ms`)
    const more = (figure(`${kind}_peak_mb`) - figure('without_peak_mb')) * 1e6
    if (more > MORE_MEMORY_BYTES) failures.push(`${kind}: ${(more / 1e6).toFixed(0)} MB more memory`)
  }
  return failures
}
