import fc from 'fast-check'
import t from 'tap'
import { instantOf } from '../../../runtime/endpoint/instant.ts'

t.test('a time of RFC 3339 is read in UTC to the microsecond', async (t) => {
  const cases: readonly (readonly [string, string])[] = [
    ['2026-03-02T09:30:00Z', '2026-03-02T09:30:00.000000Z'],
    ['2026-03-02t09:30:00z', '2026-03-02T09:30:00.000000Z'],
    ['2026-03-02T09:30:00.5+01:00', '2026-03-02T08:30:00.500000Z'],
    ['2026-03-02T00:30:00.123456-23:59', '2026-03-03T00:29:00.123456Z'],
    ['2026-03-02T09:30:00-00:00', '2026-03-02T09:30:00.000000Z'],
    ['2024-02-29T23:59:59.999999Z', '2024-02-29T23:59:59.999999Z'],
    ['2026-03-02T09:30:00.1234561Z', '2026-03-02T09:30:00.123457Z'],
    ['2026-03-02T09:30:00.1234560000Z', '2026-03-02T09:30:00.123456Z'],
    ['2026-12-31T23:59:59.9999999Z', '2027-01-01T00:00:00.000000Z'],
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000000Z'],
    ['2017-01-01T00:59:60.5+01:00', '2017-01-01T00:00:00.000000Z'],
    ['0000-01-01T00:00:00Z', '0001-01-01T00:00:00.000000Z'],
    ['9999-12-31T23:59:59-23:59', '9999-12-31T23:59:59.999999Z'],
    ['0099-01-01T00:00:00Z', '0099-01-01T00:00:00.000000Z'],
  ]
  for (const [text, expected] of cases) t.equal(instantOf(text), expected, text)
})

t.test('what is no time of RFC 3339 is none', async (t) => {
  for (const text of [
    '',
    'yesterday',
    '2026-03-02',
    '2026-03-02T09:30Z',
    '2026-03-02T09:30:00',
    '2026-03-02 09:30:00Z',
    '2026-3-2T09:30:00Z',
    '2026-02-29T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:60:00Z',
    '2026-01-01T00:00:61Z',
    '2026-06-15T12:00:60Z',
    '2026-01-01T00:00:00.Z',
    '2026-01-01T00:00:00+1:00',
    '2026-01-01T00:00:00+24:00',
    '2026-01-01T00:00:00+01:60',
    '+2026-01-01T00:00:00Z',
    '2026-01-01T00:00:00Z ',
    '２026-01-01T00:00:00Z',
    '1772443800',
  ]) {
    t.equal(instantOf(text), null, text)
  }
})

t.test('every time that the answers write is read back as it is', async () => {
  const times = fc.date({
    min: new Date('0001-01-01T00:00:00Z'),
    max: new Date('9999-12-31T23:59:59.999Z'),
    noInvalidDate: true,
  })
  const offsets = fc.integer({ min: -23 * 60 - 59, max: 23 * 60 + 59 })
  fc.assert(
    fc.property(times, offsets, (time, minutes) => {
      const shifted = new Date(time.getTime() + minutes * 60_000)
      const written = shifted.toISOString()
      if (!/^\d{4}-/.test(written) || written.startsWith('0000')) return true
      const two = (value: number): string => String(Math.abs(value)).padStart(2, '0')
      const offset = `${minutes < 0 ? '-' : '+'}${two(Math.trunc(minutes / 60))}:${two(minutes % 60)}`
      return instantOf(written.replace('Z', offset)) === time.toISOString().replace('Z', '000Z')
    }),
  )
})
