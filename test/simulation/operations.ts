import fc from 'fast-check'

export const TARGETS = ['a', 'b', 'c'] as const
export type Target = (typeof TARGETS)[number]

/**
 * What goes wrong around the operation: what it did is undone; so because its connection is killed before the commit; it
 * is committed, and who asked for it never hears of it.
 */
export type Fault = 'none' | 'undone' | 'killed' | 'unheard'

/** `pick` chooses among what there is: the message, delivery or claim with this number, counted around. */
export type Operation = Readonly<
  (
    | {
        kind: 'accept'
        count: number
        as: 'routed' | 'owned' | 'refused' | 'by hand' | 'repeat'
        target: Target
      }
    | { kind: 'dispatch'; pick: number }
    | { kind: 'claim'; target: Target; limit: number; node: number; leaseSeconds: number }
    | { kind: 'settle'; pick: number; more: number; outcome: OutcomeName; seconds: number }
    | { kind: 'renew'; pick: number }
    | { kind: 'break down'; node: number; target: Target; alone: boolean }
    | { kind: 'clock'; step: 'reclaim' | 'overdue' | 'stall' | 'announce'; announcements: number }
    | { kind: 'send'; pick: number }
    | { kind: 'receipt'; pick: number; positive: boolean }
    | { kind: 'redispatch'; pick: number }
    | { kind: 'redeliver'; pick: number; stranger: boolean }
    | { kind: 'route'; target: Target }
    | { kind: 'pass'; seconds: number }
    | { kind: 'jump'; seconds: number }
  ) & { fault: Fault }
>

export type OutcomeName = 'delivered' | 'failed' | 'retrying' | 'awaiting_ack' | 'queued'

const pick = fc.nat({ max: 1000 })
const target = fc.constantFrom(...TARGETS)
const node = fc.integer({ min: 0, max: 1 })
const fault = fc.oneof(
  { weight: 180, arbitrary: fc.constant<Fault>('none') },
  { weight: 7, arbitrary: fc.constant<Fault>('undone') },
  { weight: 1, arbitrary: fc.constant<Fault>('killed') },
  { weight: 12, arbitrary: fc.constant<Fault>('unheard') },
)

function operation<Kind extends Operation['kind']>(
  kind: Kind,
  fields: {
    [Key in Exclude<keyof Extract<Operation, { kind: Kind }>, 'kind' | 'fault'>]: fc.Arbitrary<
      Extract<Operation, { kind: Kind }>[Key]
    >
  },
): fc.Arbitrary<Operation> {
  return fc.record({ kind: fc.constant(kind), fault, ...fields }) as unknown as fc.Arbitrary<Operation>
}

/** Seconds that matter: announcements, leases, retries, receipts, and all at once. */
const waits = fc.constantFrom(10, 40, 60, 600, 90_000)

/** Weighed so that messages come as far as every state, and most operations find something to do. */
const anyOperation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 4,
    arbitrary: operation('accept', {
      count: fc.integer({ min: 1, max: 2 }),
      as: fc.constantFrom('routed', 'routed', 'routed', 'owned', 'refused', 'by hand', 'repeat'),
      target,
    }),
  },
  { weight: 1, arbitrary: operation('dispatch', { pick }) },
  {
    weight: 8,
    arbitrary: operation('claim', {
      target,
      limit: fc.integer({ min: 1, max: 3 }),
      node,
      leaseSeconds: fc.constantFrom(10, 60),
    }),
  },
  {
    weight: 8,
    arbitrary: operation('settle', {
      pick,
      more: fc.integer({ min: 0, max: 2 }),
      outcome: fc.constantFrom('delivered', 'failed', 'retrying', 'awaiting_ack', 'queued'),
      seconds: waits,
    }),
  },
  { weight: 1, arbitrary: operation('renew', { pick }) },
  { weight: 3, arbitrary: operation('break down', { node, target, alone: fc.boolean() }) },
  {
    weight: 6,
    arbitrary: operation('clock', {
      step: fc.constantFrom('reclaim', 'overdue', 'stall', 'announce'),
      announcements: fc.constantFrom(1, 2, 5),
    }),
  },
  { weight: 3, arbitrary: operation('send', { pick }) },
  { weight: 3, arbitrary: operation('receipt', { pick, positive: fc.boolean() }) },
  { weight: 3, arbitrary: operation('redispatch', { pick }) },
  { weight: 3, arbitrary: operation('redeliver', { pick, stranger: fc.constant(false) }) },
  { weight: 1, arbitrary: operation('redeliver', { pick, stranger: fc.constant(true) }) },
  { weight: 2, arbitrary: operation('route', { target }) },
  { weight: 4, arbitrary: operation('pass', { seconds: waits }) },
  { weight: 1, arbitrary: operation('jump', { seconds: fc.constantFrom(-86_400, -3_600, 3_600, 86_400) }) },
)

export const operations: fc.Arbitrary<Operation[]> = fc.array(anyOperation, {
  minLength: 6,
  maxLength: 30,
  size: 'max',
})
