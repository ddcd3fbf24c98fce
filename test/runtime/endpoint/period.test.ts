import t from 'tap'
import { z } from 'zod'
import { periodEnd, periodStart } from '../../../runtime/endpoint/period.ts'

/** Specification 4.2: from and to are RFC 3339 or a date, UTC; a date as to names the whole day. */

const from = periodStart('From then on.')
const to = periodEnd('Until then.')

t.test('4.2 a date as from is the beginning of its day, as to the end of it', async (t) => {
  for (const [date, start, end] of [
    ['2026-03-02', '2026-03-02T00:00:00.000000Z', '2026-03-03T00:00:00.000000Z'],
    ['2024-02-28', '2024-02-28T00:00:00.000000Z', '2024-02-29T00:00:00.000000Z'],
    ['2025-12-31', '2025-12-31T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z'],
    ['9999-12-31', '9999-12-31T00:00:00.000000Z', '9999-12-31T23:59:59.999999Z'],
    ['0001-01-01', '0001-01-01T00:00:00.000000Z', '0001-01-02T00:00:00.000000Z'],
  ] as const) {
    t.equal(from.parse(date), start)
    t.equal(to.parse(date), end)
  }
})

t.test('4.2 a time of RFC 3339 is that time, in UTC', async (t) => {
  for (const each of [from, to]) {
    t.equal(each.parse('2026-03-02T09:30:00Z'), '2026-03-02T09:30:00.000000Z')
    t.equal(each.parse('2026-03-02t09:30:00.5+01:00'), '2026-03-02T08:30:00.500000Z')
  }
})

t.test('4.2 any other text is refused', async (t) => {
  const texts = [
    '',
    '2026-02-29',
    '2026-00-10',
    '2026-3-2',
    '02.03.2026',
    '2026-03-02T09:30',
    ' 2026-03-02',
    '1e3',
  ]
  for (const each of [from, to]) {
    for (const text of [...texts, '2026-03-02\n', 'x'.repeat(101)]) {
      const refused = z.safeParse(each, text)
      t.match(refused.error?.issues, [{ message: /RFC 3339/ }], text)
    }
  }
})
