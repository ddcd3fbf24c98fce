import t from 'tap'
import { killAtPoints } from './support/crash-cases.ts'
import { DIGEST, OPERATORS } from './support/site.ts'

t.setTimeout(1_800_000)

t.test(
  'killed at each step of telling an operator, no alert is lost, made twice or told under two ids',
  async (t) => {
    const { pool } = await killAtPoints(t, ['notification.'])
    const { rows } = await pool.query<{ what: string }>(
      `select distinct n.instance || ' ' || n.outcome || case when n.test then ' test' else '' end as what
       from notification n order by what`,
    )
    t.same(
      rows.map(({ what }) => what),
      [
        `${DIGEST} delivered`,
        `${DIGEST} grouped`,
        `${DIGEST} suppressed_cooldown`,
        `${OPERATORS} delivered`,
        `${OPERATORS} failed test`,
      ],
      'kills met groups, repeats that are left out, and a test, which is not repeated',
    )
  },
)
