import fc from 'fast-check'
import t from 'tap'
import { z } from 'zod'
import { WaybillError } from '../../../runtime/errors.ts'
import { changeFrom, checkedCreation } from '../../../runtime/endpoint/record-rules.ts'
import { checked, unstorableProperties } from '../../../runtime/endpoint/validation.ts'

const schema = z
  .strictObject({
    name: z.string().min(1).max(3),
    count: z.int().min(1).max(5).default(2),
    mode: z.enum(['a', 'b']).default('a'),
    flag: z.boolean().default(true),
    list: z.array(z.strictObject({ key: z.string() })).default([]),
  })
  .superRefine(({ name, mode }, context) => {
    if (name === 'bad' && mode === 'b') context.addIssue({ code: 'custom', message: 'do not go together' })
  })
const rules = { name: 'Thing', schema, readOnly: ['made_at'], identity: { id: 'id' } }

function detailsOf(action: () => unknown): object {
  try {
    action()
  } catch (thrown) {
    if (thrown instanceof WaybillError && thrown.message === 'Validation failed') return thrown.details ?? {}
    throw thrown
  }
  return {}
}

t.test('a refusal has one text per property, in words', async (t) => {
  const refusals = (value: unknown) => detailsOf(() => checked(schema, value))
  t.same(refusals({}), { name: 'is required' })
  t.same(refusals({ name: null, count: '3', mode: 'c', flag: 'yes', list: {} }), {
    name: 'must be text',
    count: 'must be a number',
    mode: 'must be one of a, b',
    flag: 'must be true or false',
    list: 'must be a list',
  })
  t.same(refusals({ name: 'long', count: 1.5 }), {
    name: 'must have at most 3 characters',
    count: 'must be a whole number',
  })
  t.same(refusals({ name: '', count: 6 }), {
    name: 'must have at least 1 character',
    count: 'must be at most 5',
  })
  t.same(refusals({ name: 'a', list: [{ key: 'x' }, { kee: 'y', key: 'z' }] }), {
    list: 'entry 2: unknown property kee',
  })
  t.same(refusals({ name: 'a', list: [{}] }), { list: 'entry 1, key: is required' })
  t.same(refusals({ name: 'bad', mode: 'b' }), { _form: 'do not go together' })
  t.same(refusals([]), { _form: 'must be an object' })
})

t.test('a creation ignores what only a stored record has and fills the defaults in', async (t) => {
  const made = checkedCreation(rules, { name: 'a', id: 5, made_at: 'now' })
  t.same(made, { name: 'a', count: 2, mode: 'a', flag: true, list: [] })
})

t.test('a change keeps what the body leaves out, and never falls back to a default', async () => {
  const stored = fc.record({
    name: fc.constantFrom('a', 'b'),
    count: fc.integer({ min: 1, max: 5 }),
    mode: fc.constantFrom('a' as const, 'b' as const),
    flag: fc.boolean(),
    list: fc.array(fc.record({ key: fc.string() }), { maxLength: 3 }),
  })
  const sent = fc.record({ count: fc.integer({ min: 1, max: 5 }), flag: fc.boolean() }, { requiredKeys: [] })
  fc.assert(
    fc.property(stored, sent, (before, body) => {
      const change = changeFrom(rules, { ...body, id: 7, made_at: 'x' }, { id: 7 })
      const after = change.applyTo(before)
      return (
        JSON.stringify(after) === JSON.stringify({ ...before, ...body }) &&
        change.sent.size === Object.keys(body).length
      )
    }),
  )
})

t.test('a change refuses another record than that of the path only when it is applied', async (t) => {
  const before = checkedCreation(rules, { name: 'a' })
  for (const id of [8, '7', '8', null, '']) {
    const change = changeFrom(rules, { id }, { id: 7 })
    t.same(Object.keys(detailsOf(() => change.applyTo(before))), ['id'])
  }
})

t.test('NUL and half a surrogate pair are found wherever they are', async () => {
  const bad = fc.constantFrom('\0', 'a\0', '\ud800', 'x\udc00y')
  const wrapped = bad.chain((text) =>
    fc.constantFrom<unknown>(text, [text], { a: { b: [1, null, text] } }, [{ [text]: 1 }], [[[[text]]]]),
  )
  fc.assert(fc.property(wrapped, (value) => unstorableProperties({ fine: 1, value })[0] === 'value'))
  const fine = fc.jsonValue().filter((value) => !/\\u0000|\\ud[89a-f]/.test(JSON.stringify(value)))
  fc.assert(fc.property(fine, (value) => unstorableProperties({ value }).length === 0))
})
