import t from 'tap'
import { secondsToWait } from '../../../actors/http/retry-after.ts'

const now = new Date('2026-03-02T09:30:00.500Z')

t.test('Retry-After is a number of seconds or a date (RFC 9110 §10.2.3)', async (t) => {
  t.equal(secondsToWait('120', undefined, now), 120)
  t.equal(secondsToWait(' 0 ', undefined, now), 0)
  t.equal(secondsToWait('9'.repeat(400), undefined, now), 1e9, 'as long as may be')
  t.equal(secondsToWait('Mon, 02 Mar 2026 09:31:00 GMT', undefined, now), 59.5)
  t.equal(secondsToWait('Mon, 02 Mar 2026 09:29:00 GMT', undefined, now), 0, 'a date that has passed')
})

t.test("a date is by the clock of the server, which the answer's own date tells", async (t) => {
  const inAMinute = 'Mon, 02 Mar 2026 09:31:00 GMT'
  const anHourLater = new Date('2026-03-02T10:30:00Z')
  t.equal(secondsToWait(inAMinute, 'Mon, 02 Mar 2026 09:30:00 GMT', anHourLater), 60)
  t.equal(secondsToWait(inAMinute, 'yesterday', now), 59.5, 'one that cannot be read')
  t.equal(secondsToWait('120', 'Mon, 02 Mar 2026 09:30:00 GMT', anHourLater), 120)
})

t.test('what is neither says nothing', async (t) => {
  for (const text of [
    undefined,
    '',
    '-5',
    '1.5',
    'soon',
    '1e3',
    '2026-03-02',
    'Mon, 99 Foo 2026 09:31:00 GMT',
  ])
    t.equal(secondsToWait(text, undefined, now), null, String(text))
})
