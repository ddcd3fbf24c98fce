import { TestIssuer } from '../test/support/test-issuer.ts'
import type { Teardown } from '../test/support/database.ts'
import type { Waybill } from '../test/support/waybill.ts'

/** What a request costs more with a credential than without, to the same server. */

/** In percent of the requests a second that the developer build answers without credential. */
const LIMITS = { api_token: 10, jwt: 25 } as const

export type Credential = 'none' | keyof typeof LIMITS

/** The header lines of a request with each credential, and with none; each is that of an account of its own. */
export async function credentialsOf(
  waybill: Waybill,
  t: Teardown,
): Promise<Readonly<Record<Credential, string>>> {
  const issuer = await TestIssuer.start(t)
  await waybill.request('POST', '/oidc-providers', {
    name: 'issuer',
    issuer_url: issuer.url,
    sign_in: false,
    api_audience: 'waybill',
  })
  await waybill.request('POST', '/service-accounts', {
    name: 'robot',
    kind: 'federated',
    oidc_issuer: issuer.url,
    oidc_subject: 'robot',
  })
  await waybill.request('POST', '/service-accounts', { name: 'erp' })
  const { token } = await waybill.request<{ token: string }>('POST', '/api-tokens', {
    service_account: 'erp',
    label: 'benchmark',
  })
  const jwt = await issuer.token({ claims: { exp: Math.floor(Date.now() / 1000) + 24 * 3_600 } })
  const bearer = (credential: string): string => `Authorization: Bearer ${credential}\r\n`
  return { none: '', api_token: bearer(token), jwt: bearer(jwt) }
}

/** One round: the same requests with each credential. */
export type Round = Readonly<Record<Credential, { readonly perSecond: number; readonly cpuSeconds: number }>>

/**
 * The cost of each credential for one operation, in percent: the median over the rounds, each compared in itself, so
 * that what else the machine does in the meantime takes the same part of both.
 */
export function costsOf(operation: string, rounds: readonly Round[]): Readonly<Record<string, number>> {
  const costs: Record<string, number> = {}
  for (const name of ['api_token', 'jwt'] as const) {
    const ofRate = rounds.map((round) => 1 - round[name].perSecond / round.none.perSecond)
    const cpu = (of: Credential): number => rounds.reduce((sum, round) => sum + round[of].cpuSeconds, 0)
    costs[`${operation}_${name}_cost_percent`] = 100 * middle(ofRate)
    costs[`${operation}_${name}_cpu_cost_percent`] = 100 * (cpu(name) / cpu('none') - 1)
  }
  return costs
}

/** The costs that are above their limit, each as a sentence. */
export function excessOf(figures: Readonly<Record<string, number>>): readonly string[] {
  return Object.entries(LIMITS).flatMap(([name, limit]) =>
    Object.entries(figures)
      .filter(([figure, cost]) => figure.endsWith(`_${name}_cost_percent`) && cost >= limit)
      .map(([figure, cost]) => `${figure} is ${cost.toFixed(1)}, and must be below ${limit}`),
  )
}

function middle(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}
