/** Welch's t: how many standard errors the means are apart. */
export function welch(one: readonly number[], other: readonly number[]): number {
  return (mean(one) - mean(other)) / Math.sqrt(variance(one) / one.length + variance(other) / other.length)
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function variance(values: readonly number[]): number {
  const middle = mean(values)
  return values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1)
}
