import { hostname } from 'node:os'
import { resolve } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { ConfigError, parseConfig } from '../../runtime/config.ts'

t.test('an empty environment has every default', async (t) => {
  const expected = {
    httpPort: 8080,
    httpHost: undefined,
    publicUrl: 'http://localhost:8080',
    allowedOrigins: [],
    databaseUrl: undefined,
    dataDirectory: resolve('./data'),
    secretKey: undefined,
    auditKey: undefined,
    build: 'release',
    modules: ['as2', 'file', 'http-poster', 'notifications'],
    logLevel: 'info',
    node: hostname(),
    deliveryLeaseSeconds: 60,
    maxWaitingDeliveries: 100_000,
  }
  t.same(parseConfig({}), expected)
  const empty = Object.fromEntries(
    ['HTTP_PORT', 'PUBLIC_URL', 'SECRET_KEY', 'LOG_LEVEL'].map((name) => [name, ' ']),
  )
  t.same(parseConfig(empty), expected, 'an empty variable counts as one that is not set')
})

t.test('every variable is read', async (t) => {
  const config = parseConfig({
    HTTP_PORT: ' 9090 ',
    HTTP_HOST: '10.0.0.1',
    PUBLIC_URL: 'https://exchange.example.com',
    ALLOWED_ORIGINS: 'https://a.example.com, http://localhost:3000,',
    DATABASE_URL: 'postgres://waybill@db/waybill',
    DATA_DIRECTORY: '/var/lib/waybill',
    SECRET_KEY: 'sixteen letters!',
    AUDIT_KEY: 'sixteen letters?',
    WAYBILL_BUILD: 'release',
    WAYBILL_MODULES: 'as2, file',
    LOG_LEVEL: 'debug',
    WAYBILL_NODE: 'north',
    DELIVERY_LEASE_SECONDS: '30',
    MAX_WAITING_DELIVERIES: '250',
    SOMETHING_ELSE: 'is not ours',
  })
  t.same(config, {
    httpPort: 9090,
    httpHost: '10.0.0.1',
    publicUrl: 'https://exchange.example.com',
    allowedOrigins: ['https://a.example.com', 'http://localhost:3000'],
    databaseUrl: 'postgres://waybill@db/waybill',
    dataDirectory: '/var/lib/waybill',
    secretKey: 'sixteen letters!',
    auditKey: 'sixteen letters?',
    build: 'release',
    modules: ['as2', 'file'],
    logLevel: 'debug',
    node: 'north',
    deliveryLeaseSeconds: 30,
    maxWaitingDeliveries: 250,
  })
  t.ok(Object.isFrozen(config))
})

const REFUSED: readonly (readonly [variable: string, value: string, rule: string])[] = [
  ['HTTP_PORT', 'eighty', 'must be a port number from 0 to 65535'],
  ['HTTP_PORT', '65536', 'must be a port number from 0 to 65535'],
  ['HTTP_PORT', '-1', 'must be a port number from 0 to 65535'],
  ['HTTP_PORT', '80.5', 'must be a port number from 0 to 65535'],
  ['HTTP_PORT', '0x50', 'must be a port number from 0 to 65535'],
  ['MAX_WAITING_DELIVERIES', '0', 'must be a whole number from 1 to 999999999'],
  ['PUBLIC_URL', 'exchange.example.com', 'must be an absolute http or https URL'],
  ['PUBLIC_URL', 'ftp://exchange.example.com', 'must be an absolute http or https URL'],
  ...[
    'https://a:b@x.example',
    'https://a@x.example',
    'https://x.example/?',
    'https://x.example/?a=b',
    'https://x.example/#a',
  ].map((url) => ['PUBLIC_URL', url, 'must have no user name, password, query or fragment'] as const),
  [
    'ALLOWED_ORIGINS',
    'https://a.example.com,https://b.example.com/path',
    'each must be an origin such as https://portal.example.com, without a path',
  ],
  ['ALLOWED_ORIGINS', '*', 'each must be an origin such as https://portal.example.com, without a path'],
  ['DATABASE_URL', 'mysql://db/waybill', 'must be a postgres:// URL'],
  ['DATABASE_URL', 'waybill', 'must be a postgres:// URL'],
  ['SECRET_KEY', 'short', 'must have at least 16 characters'],
  ['AUDIT_KEY', 'short', 'must have at least 16 characters'],
  ['WAYBILL_BUILD', 'debug', 'must be release or developer'],
  ['WAYBILL_MODULES', 'as2,../file', 'each must be a module name: lower case letters, digits and -'],
  ['LOG_LEVEL', 'loud', 'must be one of fatal, error, warn, info, debug, trace, silent'],
  ['WAYBILL_NODE', 'n'.repeat(129), 'must have at most 128 characters'],
]

for (const [variable, value, rule] of REFUSED) {
  t.test(
    `${variable}=${value.slice(0, 50)} is refused in words that name the variable and the rule`,
    async (t) => {
      t.throws(() => parseConfig({ [variable]: value }), new ConfigError(`${variable}: ${rule}`))
    },
  )
}

t.test('all that is wrong is told at once', async (t) => {
  t.throws(
    () => parseConfig({ HTTP_PORT: 'x', LOG_LEVEL: 'x' }),
    new ConfigError(
      'HTTP_PORT: must be a port number from 0 to 65535; LOG_LEVEL: must be one of fatal, error, warn, info, debug, trace, silent',
    ),
  )
})

t.test('the developer build listens on loopback alone', async (t) => {
  t.equal(parseConfig({ WAYBILL_BUILD: 'developer' }).httpHost, '127.0.0.1')
  for (const HTTP_HOST of ['127.0.0.1', '::1', 'localhost']) {
    t.equal(parseConfig({ WAYBILL_BUILD: 'developer', HTTP_HOST }).httpHost, HTTP_HOST)
  }
  for (const HTTP_HOST of ['0.0.0.0', '::', '10.0.0.1']) {
    t.throws(() => parseConfig({ WAYBILL_BUILD: 'developer', HTTP_HOST }), {
      name: 'ConfigError',
      message: /^HTTP_HOST: the developer build listens on loopback only/,
    })
  }
})

t.test('a secret that is refused is not told', async (t) => {
  for (const variable of ['SECRET_KEY', 'AUDIT_KEY', 'DATABASE_URL']) {
    try {
      parseConfig({ [variable]: 'hunter2' })
      t.fail(`${variable} is accepted`)
    } catch (error) {
      t.notMatch(String(error), /hunter2/)
    }
  }
})

t.test('whatever the environment holds, it is a configuration or one line of error', async () => {
  const variables = fc.constantFrom(...REFUSED.map(([variable]) => variable), 'HTTP_HOST', 'DATA_DIRECTORY')
  fc.assert(
    fc.property(fc.dictionary(variables, fc.string({ unit: 'binary' })), (environment) => {
      try {
        parseConfig(environment)
      } catch (error) {
        return error instanceof ConfigError && !error.message.includes('\n')
      }
      return true
    }),
  )
})
