import fc from 'fast-check'
import type { TestApi } from './api.ts'
import { hostileValue, type Hints } from './arbitraries.ts'
import { makeCertificate } from './certificates.ts'

/** What random requests meet. */
export interface Population extends Hints {
  readonly messageId: string
  readonly deliveryId: string
}

/** Records for the requests to meet, and values that lead nowhere outside of the test. */
export async function populate({ client }: TestApi, directory: string): Promise<Population> {
  for (const name of ['acme', 'initech']) await client.create('/organizations', { name })
  for (const name of ['globex', 'hooli']) await client.create('/partners', { name })
  for (const commonName of ['one', 'two']) {
    const { certificatePem, privateKeyPem } = makeCertificate({ commonName })
    const parts = { certificate: certificatePem, private_key: privateKeyPem, description: commonName }
    await client.ask('POST', '/certificates', { parts })
  }
  const profile = { as2id: 'one', endpoint: 'http://127.0.0.1:9/as2', partner_certificate_id: 1 }
  await client.create('/as2/remote-profiles', { ...profile, business_partner_id: 1 })
  await client.create('/as2/local-profiles', { as2id: 'two', local_organization_id: 1 })
  const places = { base_directory: `${directory}/in`, processed_directory: `${directory}/done`, from: 'acme' }
  await client.create('/plugins/configs?type=file-poller', { name: 'poller', ...places })
  await client.create('/plugins/configs?type=file-writer', {
    name: 'writer',
    base_directory: `${directory}/out`,
  })
  await client.create('/plugins/configs?type=as2-sender', { name: 'sender' })
  await client.create('/routes', { source_plugin: 'poller', target_plugin: 'writer', from: 'acme' })
  const id = fc.constantFrom(1, 2)
  const url = fc.constantFrom('http://127.0.0.1:9/as2', 'https://127.0.0.1:9/', 'http://127.0.0.1:9/?key=1')
  const hints: Record<string, fc.Arbitrary<unknown>> = {
    source_plugin: fc.constantFrom('poller', 'writer'),
    target_plugin: fc.constantFrom('writer', 'sender'),
    sender: fc.constantFrom('sender', 'writer'),
    organization: fc.constantFrom('acme', 'initech'),
    from: fc.constantFrom('acme', 'initech', '*'),
    to: fc.constantFrom('globex', 'hooli', '*'),
    target: fc.constantFrom('writer', 'sender'),
    local_organization_id: id,
    business_partner_id: id,
    url,
    endpoint: url,
    public_url: url,
    // Another backend would be looked for outside of this machine.
    storage_backend: fc.constant('local'),
    storage_s3_endpoint: url,
  }
  const parts = { from: 'acme', to: 'globex', target: 'writer', file: 'UNA' }
  const { data: message } = await client.ask('POST', '/messages', { parts })
  const [delivery] = (message['deliveries'] ?? []) as { id: number }[]
  const inside = fc.stringMatching(/^[a-z]{1,8}$/).map((name) => `${directory}/${name}`)
  return {
    messageId: String(message['id']),
    deliveryId: String(delivery?.id),
    resolve: (ref) => client.described.schema(ref),
    byName: (name) => {
      if (name.endsWith('directory')) return inside
      if (name.endsWith('certificate_id')) return fc.constantFrom(1, 2, null)
      return hints[name]
    },
  }
}

/** A hostile value where it can do no harm outside of the test: a place to write to stays inside of it. */
export function hostileFor(name: string): fc.Arbitrary<unknown> {
  const isPlace = name.endsWith('directory') || name === 'storage_backend' || name === 'storage_s3_endpoint'
  return isPlace ? hostileValue.filter((value) => typeof value !== 'string' || value === '') : hostileValue
}
