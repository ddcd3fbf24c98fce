/** The value below which `share` of the values lie; 0 of none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}

/** The upper of the two in the middle; 0 of none. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5)
}
