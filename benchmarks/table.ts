import type { Report } from './scenario.ts'

/** A report for people: a line for what was run and one for each figure. */
export function table(report: Report): string {
  const { scenario, machine, parameters, figures } = report
  const rows = Object.entries(figures).map(
    ([name, value]) => [name.replaceAll('_', ' '), format(value)] as const,
  )
  const width = Math.max(...rows.map(([name]) => name.length))
  return [
    `${scenario}: ${Object.entries(parameters)
      .map(([name, value]) => `${value} ${name.replaceAll('_', ' ')}`)
      .join(', ')}`,
    `${machine.cores} × ${machine.model}, Node.js ${machine.node}`,
    ...rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value.padStart(12)}`),
  ].join('\n')
}

function format(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  return value.toLocaleString('en', { maximumFractionDigits: digits })
}
