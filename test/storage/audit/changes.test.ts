import t from 'tap'
import { changesBetween } from '../../../storage/audit/changes.ts'

/** Specification 2.15: `changes` is a list of field, old, new; `secret: true` for a changed secret, without values. */

t.test(
  '2.15 changes: a new record has new values, a deleted one old values, a changed one both',
  async (t) => {
    const record = { id: 3, name: 'acme', display_name: '', created_at: new Date(), updated_at: new Date() }
    t.same(changesBetween(null, record), [
      { field: 'name', new: 'acme' },
      { field: 'display_name', new: '' },
    ])
    t.same(changesBetween(record, null), [
      { field: 'name', old: 'acme' },
      { field: 'display_name', old: '' },
    ])
    t.same(changesBetween(record, { ...record, name: 'globex', updated_at: new Date(0) }), [
      { field: 'name', old: 'acme', new: 'globex' },
    ])
    t.same(changesBetween(record, record), [])
    t.same(changesBetween(null, null), [])
  },
)

t.test('2.15 changes: values are compared as they are shown, not by identity', async (t) => {
  const at = '2026-03-02T09:30:00.000Z'
  const old = { list: [1, { a: 1, b: 2 }], at: new Date(at), nothing: null, absent: undefined }
  t.same(changesBetween(old, { list: [1, { b: 2, a: 1 }], at: new Date(at) }), [])
  t.same(changesBetween(old, { ...old, list: [1], at: new Date(0), nothing: false }), [
    { field: 'list', old: [1, { a: 1, b: 2 }], new: [1] },
    { field: 'at', old: at, new: '1970-01-01T00:00:00.000Z' },
    { field: 'nothing', old: null, new: false },
  ])
  t.same(changesBetween({ a: 1 }, {}), [{ field: 'a', old: 1, new: null }])
})

t.test('2.15 changes: a secret that was set, changed or removed is named without values', async (t) => {
  const secret = ['pin']
  const told = [{ field: 'pin', secret: true }]
  t.same(changesBetween(null, { pin: '1234' }, { secret }), told)
  t.same(changesBetween({ pin: '1234' }, { pin: '5678' }, { secret }), told)
  t.same(changesBetween({ pin: '1234' }, { pin: null }, { secret }), told)
  t.same(changesBetween({ pin: '1234' }, null, { secret }), told)
  t.same(changesBetween({ pin: '1234' }, { pin: '1234' }, { secret }), [])
  t.same(changesBetween(null, { pin: '' }, { secret }), [], 'an empty one is none')
  t.same(changesBetween({ pin: [] }, { pin: null }, { secret }), [])
})

t.test(
  '2.15 changes: what is a secret by its name never shows a value, whoever forgets to say so',
  async (t) => {
    const names = [
      'password',
      'http_basic_password',
      'http_headers',
      'client_secret',
      'signing_secret',
      'private_key',
    ]
    for (const name of names) {
      const value = name === 'http_headers' ? [{ name: 'x', value: 'canary' }] : 'canary'
      const changes = changesBetween({}, { [name]: value })
      t.same(changes, [{ field: name, secret: true }])
    }
  },
)

t.test('2.15 changes: fields that are no matter of the log are left out', async (t) => {
  t.same(changesBetween(null, { last_used_at: new Date(), in_use: 1, kept: 2 }, { leaveOut: ['in_use'] }), [
    { field: 'kept', new: 2 },
  ])
})

t.test('2.15 changes: however large a record is, its event is bounded', async (t) => {
  const long = 'x'.repeat(10_000)
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`field-${at}`, long]))
  const changes = changesBetween(null, { ...many, list: Array.from({ length: 100 }, () => long) })
  t.equal(changes.length, 200)
  t.ok(JSON.stringify(changes).length < 300_000)
  const [change] = changesBetween({ list: [] }, { list: Array.from({ length: 5_000 }, (_, at) => at) })
  t.match(change, { old: [], new: /^\[0,1,2,.*…$/ })
  t.same(changesBetween(null, { text: 'a\0b\ud800' }), [{ field: 'text', new: 'a\u{fffd}b\u{fffd}' }])
  t.same(changesBetween(null, { der: Buffer.from('abc') }), [{ field: 'der', new: '3 bytes' }])
})
