import t from 'tap'
import { secondsToWait } from '../../../actors/http/retry-after.ts'

const now = new Date('2026-03-02T09:30:00.500Z')

t.test('Retry-After is a number of seconds or a date (RFC 9110 §10.2.3)', async (t) => {
  t.equal(secondsToWait('120', now), 120)
  t.equal(secondsToWait(' 0 ', now), 0)
  t.equal(secondsToWait('Mon, 02 Mar 2026 09:31:00 GMT', now), 59.5)
  t.equal(secondsToWait('Mon, 02 Mar 2026 09:29:00 GMT', now), 0, 'a date that has passed')
})

t.test('what is neither says nothing', async (t) => {
  for (const text of [
    undefined,
    '',
    '-5',
    '1.5',
    'soon',
    '1e3',
    '9999999999',
    '2026-03-02',
    'Mon, 99 Foo 2026 09:31:00 GMT',
  ])
    t.equal(secondsToWait(text, now), null, String(text))
})
