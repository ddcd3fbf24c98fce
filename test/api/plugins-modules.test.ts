import t from 'tap'
import { parse } from 'yaml'
import { installedModules } from '../../actors/registry.ts'
import { startApi } from '../support/api.ts'

// On a busy machine many requests add up.
t.setTimeout(200_000)

const MODULES: Readonly<Record<string, readonly string[]>> = {
  as2: ['as2-receiver', 'as2-sender'],
  file: ['file-poller', 'file-writer'],
  'http-poster': ['http-poster'],
  notifications: ['notification-webhook'],
}

/** `http-poster` as the OpenAPI document names its schemas. */
const componentOf = (type: string): string =>
  type.replaceAll(/(^|-)(\w)/g, (_, _hyphen, letter: string) => letter.toUpperCase())

interface Schema {
  readonly description?: string
  readonly title?: string
  readonly $ref?: string
  readonly anyOf?: readonly Schema[]
  readonly discriminator?: { readonly propertyName: string; readonly mapping: Record<string, string> }
  readonly properties?: Readonly<
    Record<string, Schema & { readonly writeOnly?: boolean; readonly examples?: unknown[] }>
  >
  readonly required?: readonly string[]
}

async function schemasOf(client: { get: (path: string) => Promise<{ text: string }> }) {
  const { text } = await client.get('/openapi.yaml')
  const document = parse(text) as {
    readonly paths: Record<string, unknown>
    readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
  }
  return { text, paths: document.paths, schemas: document.components.schemas }
}

t.test('a module that is not installed leaves no trace', async (t) => {
  for (const [module, types] of Object.entries(MODULES)) {
    t.test(module, async (t) => {
      const modules = Object.keys(MODULES).filter((each) => each !== module)
      const { client } = await startApi(t, { modules })
      const { schemas, paths } = await schemasOf(client)
      for (const type of types) {
        t.match((await client.post(`/plugins/configs?type=${type}`, { name: 'x' })).error, {
          code: 'INVALID_TYPE',
        })
        t.match((await client.get(`/plugins/configs/${type}/x`)).error, { code: 'INVALID_TYPE' })
        t.notMatch(Object.keys(schemas).join(' '), componentOf(type))
        t.notMatch(JSON.stringify(schemas['PluginConfiguration']), `"${type}"`)
      }
      const profiles = Object.keys(paths).filter((path) => path.startsWith('/as2/'))
      t.equal(profiles.length > 0, module !== 'as2')
      t.equal((await client.get('/as2/remote-profiles')).status, module === 'as2' ? 404 : 200)
      t.equal('/notifications' in paths, module !== 'notifications')
      t.equal((await client.get('/notifications')).status, module === 'notifications' ? 404 : 200)
      const rest = Object.values(MODULES).flat().length - types.length
      t.equal(schemas['PluginConfigurationCreation']?.anyOf?.length, rest)
    })
  }
  t.throws(() => installedModules(['as2', 'fax']), {
    message: /no module fax; there are as2, file, http-poster/,
  })
})

t.test('the OpenAPI document describes every type and every property in words', async (t) => {
  const { client } = await startApi(t)
  const { schemas } = await schemasOf(client)
  const types = Object.values(MODULES).flat()
  const answer = schemas['PluginConfiguration']
  t.equal(answer?.discriminator?.propertyName, 'type')
  t.same(Object.keys(answer?.discriminator?.mapping ?? {}).toSorted(), types.toSorted())
  for (const type of types) {
    const name = `${componentOf(type)}Configuration`
    t.equal(answer?.discriminator?.mapping[type], `#/components/schemas/${name}`)
    for (const component of [name, `${name}Creation`, `${name}Change`]) {
      const schema = schemas[component]
      t.ok(schema?.title, component)
      t.match(schema?.description, /^[A-Z].*\.$/, component)
      t.ok(
        schema?.description?.startsWith(schemas[name]?.description ?? '?'),
        `${component} says what it does`,
      )
      for (const [property, { description, examples }] of Object.entries(schema?.properties ?? {})) {
        t.match(description, /^[A-Z][^]*\.$/, `${component}.${property}`)
        const made = ['type', 'created_at', 'updated_at'].includes(property)
        if (!made) t.ok(examples?.length, `${component}.${property} has an example`)
      }
    }
    t.notOk(schemas[`${name}Change`]?.required, 'an update may leave everything out')
  }
})

t.test('write-only properties are in requests alone, and marked', async (t) => {
  const { client } = await startApi(t)
  const { schemas } = await schemasOf(client)
  for (const [component, names] of [
    ['HttpPosterConfiguration', ['http_basic_password', 'http_headers', 'signing_secret']],
    ['NotificationWebhookConfiguration', ['url', 'basic_password', 'headers', 'signing_secret']],
  ] as const) {
    for (const name of names) {
      t.notOk(name in (schemas[component]?.properties ?? {}), `${component}.${name}`)
      t.equal(schemas[`${component}Creation`]?.properties?.[name]?.writeOnly, true, name)
      t.equal(schemas[`${component}Change`]?.properties?.[name]?.writeOnly, true, name)
    }
  }
})
