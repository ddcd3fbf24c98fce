import t from 'tap'
import { killAtPoints } from './support/crash-cases.ts'

t.setTimeout(1_800_000)

t.test(
  'killed at each step of receipts that travel by themselves, nothing is lost, doubled or left over',
  (t) => killAtPoints(t, ['receipt-']),
)
