import type { Test } from 'tap'
import { startApi, type TestApi } from './api.ts'
import { makeAs2Partners, type As2Partners } from './as2-partner.ts'

interface Step {
  readonly name: string
  readonly ok: boolean | null
  readonly elapsed_ms: number
  readonly detail: string
}

/** What must fail, and how it is told. */
interface Failure {
  readonly step: string
  readonly problem: RegExp
  /** Default `sender`, which runs. */
  readonly sender?: string
}

/** Checks of the connection to one partner. */
export class ConnectionChecks {
  readonly api: TestApi
  readonly partners: As2Partners

  private constructor(api: TestApi, partners: As2Partners) {
    this.api = api
    this.partners = partners
  }

  static async begin(t: Test): Promise<ConnectionChecks> {
    const api = await startApi(t)
    const checks = new ConnectionChecks(api, await makeAs2Partners(api, 'http://127.0.0.1:9/as2'))
    await api.client.create('/plugins/configs?type=as2-sender', { name: 'sender' })
    await checks.start('sender')
    return checks
  }

  /** Starts an AS2 sender that is configured. */
  async start(sender: string): Promise<void> {
    const { status, text } = await this.api.client.post(`/services/as2-sender/${sender}/start`)
    if (status !== 200) throw new Error(text)
  }

  /** Changes the partner's profile, or another record. */
  async put(body: object, path = this.partners.profile): Promise<void> {
    const { status, text } = await this.api.client.put(path, body)
    if (status !== 200) throw new Error(text)
  }

  async check(t: Test, endpoint: string, sender = 'sender') {
    await this.put({ endpoint })
    const answer = await this.api.client.post(`${this.partners.profile}/check-connection`, { sender })
    t.equal(answer.status, 200, answer.text)
    const { ok, steps, problem } = answer.data as { ok: boolean; steps: Step[]; problem: string | null }
    const names = steps.map(({ name }) => name)
    t.same(names, ['certificates', 'resolve', 'connect', 'tls', 'http'], 'every step, in order')
    t.equal(ok, problem === null, 'a problem when it is not ok')
    const results = Object.fromEntries(steps.map((step) => [step.name, step.ok]))
    const details = Object.fromEntries(steps.map((step) => [step.name, step.detail]))
    return { ok, problem, results, details, steps }
  }

  /** Checks that exactly this step fails and none after it is reached. */
  async fails(t: Test, endpoint: string, { step, problem, sender = 'sender' }: Failure): Promise<void> {
    const { ok, problem: said, results, steps } = await this.check(t, endpoint, sender)
    t.equal(ok, false)
    t.match(said, problem)
    t.ok(said?.startsWith(`${step}: `), `it names the step: ${said}`)
    const at = steps.findIndex(({ name }) => name === step)
    t.same(
      steps.map(({ ok: each }) => each),
      steps.map((_, index) => (index < at ? true : index === at ? false : null)),
      JSON.stringify(results),
    )
  }
}
