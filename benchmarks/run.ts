import { mkdir, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { parseArgs } from 'node:util'
import { alertStorm } from './alert-storm.ts'
import { apiLists } from './api-lists.ts'
import { apiThroughput } from './api-throughput.ts'
import { as2Hostile } from './as2-hostile.ts'
import { as2Large } from './as2-large.ts'
import { as2Loop } from './as2-loop.ts'
import { as2Oracle } from './as2-oracle.ts'
import { as2Receive } from './as2-receive.ts'
import { fileIntake } from './file-intake.ts'
import { deliveries } from './deliveries.ts'
import { events } from './events.ts'
import { recovery } from './recovery.ts'
import type { Report, Scenario } from './scenario.ts'
import { table } from './table.ts'

/** `npm run bench -- NAME [--messages N] [--size BYTES] [--concurrency N] [--mb N] [--seconds N] [--json FILE]` */
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'alert-storm': alertStorm,
  'api-lists': apiLists,
  'as2-hostile': as2Hostile,
  'as2-large': as2Large,
  'as2-loop': as2Loop,
  'as2-oracle': as2Oracle,
  'as2-receive': as2Receive,
  'file-intake': fileIntake,
  'api-throughput': apiThroughput,
  deliveries,
  events,
  recovery,
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    messages: { type: 'string' },
    size: { type: 'string' },
    concurrency: { type: 'string' },
    mb: { type: 'string' },
    seconds: { type: 'string' },
    json: { type: 'string' },
  },
})
const name = positionals[0] ?? ''
const scenario = SCENARIOS[name]
if (scenario === undefined) {
  console.error(`Usage: npm run bench -- NAME, where NAME is one of ${Object.keys(SCENARIOS).join(', ')}`)
  process.exit(2)
}
const number = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : Number(text)
const figures = await scenario({
  messages: number(values.messages),
  sizeBytes: number(values.size),
  concurrency: number(values.concurrency),
  megabytes: number(values.mb),
  seconds: number(values.seconds),
})
const report: Report = {
  scenario: name,
  at: new Date().toISOString(),
  machine: {
    cores: cpus().length,
    model: cpus()[0]?.model ?? 'unknown',
    memoryBytes: totalmem(),
    node: process.version,
  },
  ...figures,
}
console.log(table(report))
const file = values.json ?? `benchmarks/results/${name}.json`
await mkdir('benchmarks/results', { recursive: true })
await writeFile(file, `${JSON.stringify(report, null, 2)}\n`)
console.log(`\nas JSON: ${file}`)
for (const failure of figures.failures ?? []) console.error(`Not held: ${failure}`)
if ((figures.failures ?? []).length > 0) process.exitCode = 1
