import type { Pool } from 'pg'
import { Batch } from '../../../storage/exchange/batch.ts'
import {
  partnershipsByAs2Id,
  partnershipsByName,
  signingByAs2Id,
  type Pair,
  type PartnershipRow,
} from '../../../storage/sql/partnership.ts'
import type { Keyring, KeyPair, Partnership } from './partnership.ts'

/** More pairs than wait at the same time. */
const MAX_PAIRS = 100

/**
 * Looks partnerships up. Messages of the same moment share one statement, and those of one pair what it finds. The
 * statement begins after each of them asked, so a change that was confirmed before a message came is always seen.
 */
export class PartnershipLookup {
  readonly #pool: Pool
  readonly #keyring: Keyring
  readonly #byName: Batch<Pair, Partnership | null>
  readonly #byAs2Id: Batch<Pair, Partnership | null>

  constructor(pool: Pool, keyring: Keyring) {
    this.#pool = pool
    this.#keyring = keyring
    const lookUp = (
      rowsOf: (pairs: readonly Pair[]) => Promise<PartnershipRow[]>,
      pairOf: (row: PartnershipRow) => Pair,
    ): Batch<Pair, Partnership | null> =>
      new Batch(
        async (pairs) => {
          const distinct = new Map(pairs.map((pair) => [keyOf(pair), pair]))
          const rows = await rowsOf([...distinct.values()])
          const found = new Map(rows.map((row) => [keyOf(pairOf(row)), keyring.open(row)]))
          return pairs.map((pair) => found.get(keyOf(pair)) ?? null)
        },
        { maxItems: MAX_PAIRS, maxUnderWay: 1 },
      )
    this.#byName = lookUp(
      (pairs) => partnershipsByName(pool, pairs),
      ({ organization, partner }) => ({ ours: organization, theirs: partner }),
    )
    this.#byAs2Id = lookUp(
      (pairs) => partnershipsByAs2Id(pool, pairs),
      ({ local_as2id, remote_as2id }) => ({ ours: local_as2id, theirs: remote_as2id }),
    )
  }

  /** Of an organization and a partner; null when they do not both have a profile. */
  byName(organization: string, partner: string): Promise<Partnership | null> {
    return this.#byName.add({ ours: organization, theirs: partner })
  }

  /** By the identifiers of the AS2 headers. */
  byAs2Id(local: string, remote: string): Promise<Partnership | null> {
    return this.#byAs2Id.add({ ours: local, theirs: remote })
  }

  /** What an organization of ours signs with; null for none. For who is no partner of it: others have it with the pair. */
  async ownSigning(local: string): Promise<KeyPair | null> {
    return this.#keyring.keyPair(await signingByAs2Id(this.#pool, local))
  }
}

function keyOf({ ours, theirs }: Pair): string {
  return JSON.stringify([ours, theirs])
}
