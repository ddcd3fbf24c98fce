import t from 'tap'
import { watchHeartbeat } from '../../../runtime/thread/heartbeat.ts'
import { ManualClock } from '../manual-clock.ts'

const LIMITS = { heartbeatMs: 1_000, silenceLimitMs: 15_000 }

function open() {
  const clock = new ManualClock()
  let silences = 0
  const watch = watchHeartbeat(clock, LIMITS, () => (silences += 1))
  return { clock, watch, silences: () => silences }
}

t.test('silence for fifteen seconds is told once', async (t) => {
  const { clock, silences } = open()
  clock.advance(14_999)
  t.equal(silences(), 0)
  clock.advance(1)
  t.equal(silences(), 1)
  clock.advance(60_000)
  t.equal(silences(), 1)
  t.equal(clock.timers, 0)
})

t.test('each beat begins the count anew', async (t) => {
  const { clock, watch, silences } = open()
  for (let beats = 0; beats < 100; beats += 1) {
    clock.advance(14_000)
    watch.beat()
  }
  t.equal(silences(), 0)
  clock.advance(15_000)
  t.equal(silences(), 1)
})

t.test('a machine that was asleep finds its instances alive', async (t) => {
  const { clock, watch, silences } = open()
  clock.jump(3_600_000)
  t.equal(silences(), 0)
  watch.beat()
  clock.advance(14_000)
  t.equal(silences(), 0)
})

t.test('a watch that has ended tells nothing and leaves no timer', async (t) => {
  const { clock, watch, silences } = open()
  watch.end()
  clock.advance(60_000)
  t.equal(silences(), 0)
  t.equal(clock.timers, 0)
})
