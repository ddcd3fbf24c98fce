import t from 'tap'
import { parse } from 'yaml'
import { startApi } from '../../support/api.ts'
import type { DescribedOperation } from '../../support/described-api.ts'

/** Specification 4.3: the table of endpoints, held against the served document row by row. */

interface Row {
  readonly methods: readonly string[]
  readonly path: string
  /** Key of the list that GET answers. */
  readonly list?: string
  /** Query parameters that the table names, beside paging. */
  readonly query?: readonly string[]
  /** Statuses of success by method, where they are not those of 2.1: 200, POST 201, DELETE 204. */
  readonly success?: Readonly<Record<string, readonly number[]>>
  /** Content type of the request; `none` for one that takes no body. */
  readonly takes?: 'form' | 'none'
  /** Content type of the answer, where it is no JSON. */
  readonly answers?: string
  /** Codes that the table gives, by method. */
  readonly codes?: Readonly<Record<string, readonly string[]>>
  /** Properties of the answer that the table names. */
  readonly shows?: readonly string[]
}

const RECORD = { PUT: ['NOT_FOUND'], GET: ['NOT_FOUND'], DELETE: ['NOT_FOUND'] }
const ONE = ['GET', 'PUT', 'DELETE']
const ALL = ['GET', 'POST']

/** 2.14. */
const NOTIFICATION_ROW = [
  'id',
  'alert_id',
  'alert_time',
  'severity',
  'code',
  'subject_kind',
  'subject_id',
  'subject_name',
  'summary',
  'details',
  'dedupe_key',
  'link',
  'instance',
  'format',
  'test',
  'outcome',
  'attempts',
  'last_error',
  'created_at',
  'delivered_at',
]

const TABLE: readonly Row[] = [
  {
    methods: ['GET'],
    path: '/health',
    success: { GET: [200, 503] },
    shows: ['status', 'timestamp', 'database'],
  },
  { methods: ['GET'], path: '/openapi.yaml', answers: 'application/yaml' },
  {
    methods: ALL,
    path: '/organizations',
    list: 'organizations',
    query: ['q'],
    codes: { POST: ['CONFLICT'] },
  },
  { methods: ONE, path: '/organizations/{id}', codes: RECORD, shows: ['id', 'name', 'display_name'] },
  { methods: ALL, path: '/partners', list: 'partners', query: ['q'], codes: { POST: ['CONFLICT'] } },
  { methods: ONE, path: '/partners/{id}', codes: RECORD, shows: ['id', 'name', 'display_name'] },
  { methods: ALL, path: '/routes', list: 'routes', codes: { POST: ['INVALID_INPUT', 'CONFLICT'] } },
  {
    methods: ONE,
    path: '/routes/{id}',
    codes: RECORD,
    shows: ['id', 'source_plugin', 'from', 'to', 'target_plugin'],
  },
  { methods: ['GET'], path: '/certificates', list: 'certificates', query: ['q', 'status', 'key'] },
  {
    methods: ['POST'],
    path: '/certificates',
    takes: 'form',
    success: { POST: [200, 201] },
    codes: { POST: ['CERTIFICATE_EXISTS', 'PAYLOAD_TOO_LARGE', 'MISSING_HEADER'] },
  },
  { methods: ['POST'], path: '/certificates/import', shows: ['certificates'] },
  { methods: ['GET'], path: '/certificates/expiring', list: 'certificates', query: ['days'] },
  {
    methods: ONE,
    path: '/certificates/{id}',
    codes: { ...RECORD, DELETE: ['NOT_FOUND', 'CERTIFICATE_IN_USE'] },
    shows: [
      'id',
      'description',
      'common_name',
      'state',
      'days_remaining',
      'has_private_key',
      'private_key_matches',
    ],
  },
  { methods: ['GET'], path: '/certificates/{id}/download', answers: 'application/x-pem-file' },
  { methods: ALL, path: '/as2/local-profiles', list: 'profiles', codes: { POST: ['CONFLICT'] } },
  {
    methods: ONE,
    path: '/as2/local-profiles/{id}',
    codes: RECORD,
    shows: ['local_organization_id', 'as2id'],
  },
  { methods: ALL, path: '/as2/remote-profiles', list: 'profiles', codes: { POST: ['CONFLICT'] } },
  {
    methods: ONE,
    path: '/as2/remote-profiles/{id}',
    codes: RECORD,
    shows: ['business_partner_id', 'as2id', 'endpoint', 'partner_certificate_id', 'receipt_timeout_hours'],
  },
  {
    methods: ['POST'],
    path: '/as2/remote-profiles/{id}/check-connection',
    success: { POST: [200] },
    codes: { POST: ['SENDER_NOT_RUNNING', 'NOT_FOUND'] },
    shows: ['ok', 'steps', 'problem'],
  },
  {
    methods: ['POST'],
    path: '/as2/remote-profiles/{id}/test-message',
    shows: ['message_id', 'status', 'file_name'],
  },
  {
    methods: ['POST'],
    path: '/plugins/configs',
    query: ['type'],
    codes: { POST: ['MISSING_TYPE', 'INVALID_TYPE', 'CONFLICT'] },
  },
  { methods: ONE, path: '/plugins/configs/{type}/{name}', codes: RECORD, shows: ['type', 'name', 'enabled'] },
  {
    methods: ['POST'],
    path: '/plugins/configs/notification-webhook/{name}/test',
    takes: 'none',
    success: { POST: [200] },
    codes: { POST: ['NOT_FOUND'] },
    shows: NOTIFICATION_ROW,
  },
  {
    methods: ['GET'],
    path: '/services',
    list: 'services',
  },
  {
    methods: ['POST'],
    path: '/services/{type}/{name}/{action}',
    takes: 'none',
    success: { POST: [200] },
    codes: { POST: ['NOT_FOUND', 'INVALID_ACTION', 'NOT_CONTROLLABLE', 'INVALID_STATE', 'START_FAILED'] },
    shows: ['type', 'name', 'status', 'error', 'controllable', 'state_since', 'actions'],
  },
  { methods: ['GET'], path: '/messages', list: 'messages', query: ['status', 'from', 'to', 'since'] },
  {
    methods: ['POST'],
    path: '/messages',
    takes: 'form',
    codes: { POST: ['PAYLOAD_TOO_LARGE', 'MISSING_HEADER', 'INVALID_INPUT'] },
  },
  {
    methods: ['GET'],
    path: '/messages/{id}',
    codes: { GET: ['NOT_FOUND'] },
    shows: ['id', 'status', 'stage', 'direction', 'deliveries', 'history', 'payloads', 'protocols'],
  },
  {
    methods: ['GET'],
    path: '/messages/{id}/payload',
    query: ['stage'],
    answers: 'application/octet-stream',
    codes: { GET: ['INVALID_INPUT', 'NOT_FOUND'] },
  },
  {
    methods: ['POST'],
    path: '/messages/{id}/redispatch',
    takes: 'none',
    success: { POST: [200] },
    codes: { POST: ['NOT_FOUND', 'NOT_REDISPATCHABLE'] },
    shows: ['id', 'status', 'stage', 'deliveries'],
  },
  {
    methods: ['POST'],
    path: '/messages/{id}/deliveries/{delivery_id}/redeliver',
    takes: 'none',
    success: { POST: [200] },
    codes: { POST: ['NOT_FOUND', 'NOT_REDELIVERABLE'] },
    shows: ['id', 'status', 'stage', 'deliveries'],
  },
  { methods: ['GET'], path: '/events', query: ['message_id'], answers: 'text/event-stream' },
  {
    methods: ['GET'],
    path: '/stats',
    shows: [
      'messages_last_24h',
      'sent_last_24h',
      'received_last_24h',
      'messages_last_7d',
      'in_flight_messages',
      'failed_last_24h',
      'system_status',
      'plugin_status',
    ],
  },
  {
    methods: ['GET', 'PUT'],
    path: '/settings',
    codes: { PUT: ['INVALID_INPUT'] },
    shows: [
      'storage_backend',
      'storage_local_directory',
      'storage_s3_bucket',
      'storage_s3_region',
      'storage_s3_endpoint',
      'delivery_max_dispatches',
      'identification_hide_version',
      'updated_at',
      'storage_in_use',
      'restart_needed',
    ],
  },
  {
    methods: ['POST'],
    path: '/settings/storage/test',
    takes: 'none',
    success: { POST: [200] },
    shows: ['ok', 'storage', 'elapsed_ms', 'step', 'problem'],
  },
  {
    methods: ['GET'],
    path: '/notifications',
    list: 'notifications',
    query: ['severity', 'code', 'instance', 'outcome', 'from', 'to', 'include_tests'],
    codes: { GET: ['INVALID_INPUT'] },
  },
  {
    methods: ['GET'],
    path: '/audit',
    list: 'events',
    query: ['kind', 'action', 'actor', 'record_id', 'record_name', 'from', 'to'],
    codes: { GET: ['INVALID_INPUT'] },
  },
  {
    methods: ['POST'],
    path: '/audit/verify',
    takes: 'none',
    success: { POST: [200] },
    codes: { POST: ['AUDIT_KEY_REQUIRED'] },
    shows: [
      'ok',
      'events_checked',
      'chained',
      'unchained',
      'head_id',
      'head_hash',
      'first_broken_id',
      'reason',
    ],
  },
]

const USUAL_SUCCESS: Readonly<Record<string, readonly number[]>> = {
  GET: [200],
  POST: [201],
  PUT: [200],
  DELETE: [204],
}

type Node = Readonly<Record<string, unknown>>

t.test('4.3 Endpoint table', async (t) => {
  const { client } = await startApi(t)
  const document = parse((await client.get('/openapi.yaml')).text) as Node
  const operations = new Map(client.operations().map((each) => [`${each.method} ${each.path}`, each]))
  const resolved = (node: unknown): Node => {
    const { $ref } = node as { $ref?: string }
    if ($ref === undefined) return node as Node
    return resolved(
      $ref
        .slice(2)
        .split('/')
        .reduce((each: unknown, step) => (each as Node)[step], document),
    )
  }

  for (const { methods, path, ...row } of TABLE) {
    for (const method of methods) {
      t.test(`4.3 ${method} ${path}`, async (t) => {
        const described = operations.get(`${method} ${path}`)
        if (described === undefined) return t.fail('the document does not have it')
        const { operation } = described
        t.same(requestTypeOf(described), typeTaken(method, row.takes), 'the request')
        const parameters = (operation.parameters ?? []).filter((each) => each.in === 'query')
        const names = new Set(parameters.map(({ name }) => name))
        const { query = [], list } = row
        if (method === 'GET' || query.includes('type'))
          t.ok(
            query.every((name) => names.has(name)),
            'the parameters',
          )
        if (list !== undefined && method === 'GET') t.ok(names.has('limit') && names.has('offset'), 'paging')

        const success = row.success?.[method] ?? USUAL_SUCCESS[method] ?? []
        const successes = Object.keys(operation.responses)
          .map(Number)
          .filter((status) => status < 300)
        t.same(
          successes,
          success.filter((status) => status < 300),
          'the statuses of success',
        )
        for (const status of success) t.ok(String(status) in operation.responses, `the status ${status}`)
        const codes = new Set(
          [
            ...JSON.stringify(
              Object.keys(operation.responses).map((status) => resolved(operation.responses[status])),
            ).matchAll(/"enum":\[([^\]]*)\]/g),
          ].flatMap(([, values = '']) => JSON.parse(`[${values}]`) as string[]),
        )
        for (const code of row.codes?.[method] ?? []) t.ok(codes.has(code), code)

        const [first = 0] = success
        const { content } = resolved(operation.responses[String(first)]) as {
          content?: Record<string, { schema: Node }>
        }
        if (method === 'DELETE') return t.equal(content, undefined, 'no body')
        t.same(
          Object.keys(content ?? {}),
          [row.answers ?? 'application/json'],
          'the content type of the answer',
        )
        if (row.answers !== undefined) return undefined
        const schema = resolved(content?.['application/json']?.schema)
        const properties = schema['properties'] as Node
        const data = path === '/health' ? schema : resolved(properties['data'])
        const shown = Object.keys(data['properties'] ?? {})
        if (list !== undefined && method === 'GET') {
          t.same(shown.toSorted(), [list, 'limit', 'offset', 'total'].toSorted(), 'a list')
        } else if (data['anyOf'] === undefined) {
          for (const name of row.shows ?? []) t.ok(shown.includes(name), name)
        }
        return undefined
      })
    }
  }

  t.test(
    '4.3 the document has no operation below a path of the table beside those of the table',
    async (t) => {
      const rows = new Set(TABLE.flatMap(({ methods, path }) => methods.map((method) => `${method} ${path}`)))
      const paths = new Set(TABLE.map(({ path }) => path))
      t.same(
        [...operations]
          .filter(([, { path }]) => paths.has(path))
          .map(([name]) => name)
          .filter((name) => !rows.has(name)),
        [],
      )
    },
  )
})

function typeTaken(method: string, takes: Row['takes']): readonly string[] {
  if (method === 'GET') return []
  return [takes === 'form' ? 'multipart/form-data' : 'application/json']
}

function requestTypeOf({ operation }: DescribedOperation): readonly string[] {
  return Object.keys(operation.requestBody?.content ?? {})
}
