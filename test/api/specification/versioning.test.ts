import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { temporaryDirectory } from '../../support/processes.ts'
import { Waybill } from '../../support/waybill.ts'

/** Specification 9, and what GET /openapi.yaml says in section 1: with the process as an operator starts it. */

/** What each module brings: paths begin so, plugin types and schemas are called so. */
const TRACES = {
  as2: {
    paths: ['/as2/'],
    types: ['as2-receiver', 'as2-sender'],
    words: /as2-(receiver|sender|local|remote)|\/as2\/|As2[A-Z]/,
  },
  file: {
    paths: [],
    types: ['file-poller', 'file-writer'],
    words: /file-(poller|writer)|File(Poller|Writer)/,
  },
  'http-poster': { paths: [], types: ['http-poster'], words: /http-poster|HttpPoster/ },
  notifications: {
    paths: ['/notifications'],
    types: ['notification-webhook'],
    words: /notification-webhook|NotificationWebhook/,
  },
} as const

type Module = keyof typeof TRACES

const MODULES = Object.keys(TRACES) as Module[]

interface Document {
  readonly paths: Readonly<Record<string, unknown>>
  readonly tags: readonly { readonly name: string }[]
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> }
}

t.setTimeout(600_000)

function isListOfKinds(value: unknown): boolean {
  return Array.isArray(value) && value.includes('organization') && value.includes('audit-log')
}

t.test('9 The document describes the endpoints and plugin types of the running server', async (t) => {
  const directory = await temporaryDirectory(t)
  for (const [index, installed] of (
    [['file'], ['as2', 'notifications'], ['http-poster'], MODULES] as const
  ).entries()) {
    await t.test(`9 WAYBILL_MODULES=${installed.join(',')}`, async (t) => {
      const waybill = await Waybill.start({
        directory: join(directory, String(index)),
        env: { WAYBILL_MODULES: installed.join(',') },
      })
      t.teardown(() => waybill.stop())
      const base = `${waybill.url}/api/v1`
      const text = await (await fetch(`${base}/openapi.yaml`)).text()
      const document = parse(text) as Document
      const structure = JSON.stringify(document, (key, value: unknown) => {
        // Examples show what could be, and the kinds of the audit log what has been: a module may be gone since.
        const isOfOthers = key === 'example' || key === 'examples' || isListOfKinds(value)
        return isOfOthers ? undefined : value
      })
      t.match(document.paths, { '/organizations': {}, '/messages': {}, '/plugins/configs': {} })
      for (const module of MODULES) {
        const { paths, types, words } = TRACES[module]
        const there = (installed as readonly Module[]).includes(module)
        for (const path of paths) {
          const described = Object.keys(document.paths).some((each) => each.startsWith(path))
          t.equal(described, there, `${module}: ${path}`)
        }
        if (!there) t.notMatch(structure, words, `${module} leaves no trace`)
        for (const type of types) {
          t.equal(structure.includes(type), there, type)
          const headers = { 'content-type': 'application/json' }
          const asked = { method: 'POST', headers, body: '{}' }
          const answer = await fetch(`${base}/plugins/configs?type=${type}`, asked)
          const { error } = (await answer.json()) as { error: { code: string } }
          t.equal(error.code, there ? 'INVALID_INPUT' : 'INVALID_TYPE', type)
        }
      }
      const profiles = await fetch(`${base}/as2/local-profiles`)
      t.equal(profiles.status, (installed as readonly Module[]).includes('as2') ? 200 : 404)
      const notifications = await fetch(`${base}/notifications`)
      t.equal(notifications.status, (installed as readonly Module[]).includes('notifications') ? 200 : 404)
      if (installed !== MODULES) t.equal(await waybill.stop(), 0)
    })
  }
})

t.test('9 The API version is carried in the path prefix /api/v1', async (t) => {
  const waybill = await Waybill.start({ directory: await temporaryDirectory(t) })
  t.teardown(() => waybill.stop())
  t.equal((await fetch(`${waybill.url}/api/v1/health`)).status, 200)
  for (const path of ['/health', '/api/health', '/api/v2/health', '/v1/health', '/api/V1/health']) {
    t.equal((await fetch(waybill.url + path)).status, 404, path)
  }
  const text = await (await fetch(`${waybill.url}/api/v1/openapi.yaml`)).text()
  const { servers, info } = parse(text) as { servers: { url: string }[]; info: { version: string } }
  t.match(servers[0]?.url, /\/api\/v1$/)
  t.match(info.version, /^\d+\.\d+\.\d+$/)
})
