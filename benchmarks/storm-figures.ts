import { median } from './statistics.ts'
import { KINDS, NOTIFIER, type Kind } from './storm-checks.ts'

/** All failures are to come within it. */
const STORM_SECONDS = 60
const LEAST_SHARE = 0.95
const FIRST_ALERT_MS = 2_000
const MORE_MEMORY_BYTES = 100e6

/** What was measured in one storm. */
export interface Round {
  readonly seconds: number
  /** Deliveries that succeed a second, while others fail. */
  readonly rate: number
  readonly cpuMs: number
  readonly peakBytes: number
  /** From the answer that failed the first delivery to the first post. Null without a notifier. */
  readonly firstAlertMs: number | null
  readonly posts: number
}

/** Each is the median of the rounds. */
export function figuresOf(rounds: ReadonlyMap<Kind, readonly Round[]>): Record<string, number> {
  const of = (kind: Kind): readonly Round[] => rounds.get(kind) ?? []
  const figures: Record<string, number> = {}
  for (const kind of KINDS) {
    const middle = (figure: (round: Round) => number): number => median(of(kind).map(figure))
    figures[`${kind}_seconds_of_storm`] = middle(({ seconds }) => seconds)
    figures[`${kind}_succeeded_per_second`] = middle(({ rate }) => rate)
    figures[`${kind}_cpu_ms_per_delivery`] = middle(({ cpuMs }) => cpuMs)
    figures[`${kind}_peak_mb`] = middle(({ peakBytes }) => peakBytes) / 1e6
    if (kind === 'without') continue
    // Of each round its own share: what else the machine has to do changes more slowly than the rounds.
    const shares = of(kind).map(({ rate }, round) => rate / (of('without')[round]?.rate ?? 1))
    figures[`${kind}_share_of_throughput`] = median(shares)
    const cpuShares = of(kind).map(({ cpuMs }, round) => cpuMs / (of('without')[round]?.cpuMs ?? 1))
    figures[`${kind}_times_the_cpu`] = median(cpuShares)
    figures[`${kind}_worst_first_alert_ms`] = Math.max(
      ...of(kind).map(({ firstAlertMs }) => firstAlertMs ?? 0),
    )
    figures[`${kind}_posts`] = middle(({ posts }) => posts)
  }
  return figures
}

/** What was to be held and was not, each as a sentence. */
export function limits(figures: Readonly<Record<string, number>>): string[] {
  const of = (name: string): number => figures[name] ?? 0
  const failures: string[] = []
  const slowest = Math.max(...KINDS.map((kind) => of(`${kind}_seconds_of_storm`)))
  if (slowest > STORM_SECONDS) failures.push(`the storm took ${slowest.toFixed(0)} seconds`)
  for (const kind of KINDS.filter((each) => each !== 'without')) {
    const share = of(`${kind}_share_of_throughput`)
    if (share < LEAST_SHARE) failures.push(`${kind}: ${share.toFixed(3)} of the throughput is left`)
    const allowedMs = FIRST_ALERT_MS + (NOTIFIER[kind]?.group_seconds ?? 0) * 1000
    const firstMs = of(`${kind}_worst_first_alert_ms`)
    if (firstMs > allowedMs) failures.push(`${kind}: the first alert came after ${firstMs.toFixed(0)} ms`)
    const more = (of(`${kind}_peak_mb`) - of('without_peak_mb')) * 1e6
    if (more > MORE_MEMORY_BYTES) failures.push(`${kind}: ${(more / 1e6).toFixed(0)} MB more memory`)
  }
  return failures
}
