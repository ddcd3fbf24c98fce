import t from 'tap'
import { killAtPoints } from './support/crash-cases.ts'

t.setTimeout(1_800_000)

t.test('killed at each step of taking messages in, nothing is lost, doubled or left lying around', (t) =>
  killAtPoints(t, ['as2-receiver.', 'file-poller.', 'api.', 'payload-', 'mover.']),
)
