import t from 'tap'
import { killAtPoints } from './support/crash-cases.ts'

t.setTimeout(1_800_000)

t.test('killed at each step of delivering messages, nothing is lost, doubled or left lying around', (t) =>
  killAtPoints(t, ['delivery.', 'as2-sender.', 'http-poster.', 'file-writer.', 'clock.']),
)
