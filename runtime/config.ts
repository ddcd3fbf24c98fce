import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { z } from 'zod'
import { OperatorError } from './errors.ts'

/** The schema of the process settings. Nothing else reads the environment. */

const port = z
  .string()
  .regex(/^\d{1,5}$/, { error: 'must be a port number from 0 to 65535' })
  .transform(Number)
  .refine((number) => number <= 65_535, { error: 'must be a port number from 0 to 65535' })
const list = z.string().transform((text) =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== ''),
)
const origin = z.string().refine((text) => URL.canParse(text) && new URL(text).origin === text, {
  error: 'each must be an origin such as https://portal.example.com, without a path',
})
const moduleName = z
  .string()
  .regex(/^[a-z0-9-]+$/, { error: 'each must be a module name: lower case letters, digits and -' })
/** Whether addresses can be made by adding a path; what is no URL is told as such. */
function isBase(text: string): boolean {
  if (!URL.canParse(text)) return true
  const { username, password } = new URL(text)
  return username === '' && password === '' && !/[?#]/.test(text)
}
const optional = (text: string | undefined): string | undefined =>
  text === undefined || text.trim() === '' ? undefined : text.trim()
/** By which a service is known that has no PUBLIC_URL. */
export function localUrl(httpPort: number): string {
  return `http://localhost:${httpPort}`
}
const LOOPBACK_HOSTS = new Set(['127.0.0.1', '::1', 'localhost'])

const environment = z.object({
  HTTP_PORT: port.default(8080),
  HTTP_HOST: z.string().optional(),
  PUBLIC_URL: z
    .url({ protocol: /^https?$/, error: 'must be an absolute http or https URL' })
    .refine(isBase, { error: 'must have no user name, password, query or fragment' })
    .optional(),
  ALLOWED_ORIGINS: list.pipe(z.array(origin)).default([]),
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// URL' }).optional(),
  DATA_DIRECTORY: z.string().default('./data'),
  SECRET_KEY: z.string().min(16, 'must have at least 16 characters').optional(),
  NEW_SECRET_KEY: z.string().min(16, 'must have at least 16 characters').optional(),
  AUDIT_KEY: z.string().min(16, 'must have at least 16 characters').optional(),
  WAYBILL_BUILD: z
    .enum(['release', 'developer'], { error: 'must be release or developer' })
    .default('release'),
  WAYBILL_MODULES: list.pipe(z.array(moduleName)).default(['as2', 'file', 'http-poster', 'notifications']),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
      error: 'must be one of fatal, error, warn, info, debug, trace, silent',
    })
    .default('info'),
  MAX_WAITING_DELIVERIES: z
    .string()
    .regex(/^[1-9]\d{0,8}$/, { error: 'must be a whole number from 1 to 999999999' })
    .transform(Number)
    .default(100_000),
  DELIVERY_LEASE_SECONDS: z
    .string()
    .regex(/^\d{1,4}$/, { error: 'must be a whole number from 2 to 3600' })
    .transform(Number)
    .refine((seconds) => seconds >= 2 && seconds <= 3600, { error: 'must be a whole number from 2 to 3600' })
    .default(60),
  WAYBILL_NODE: z.string().max(128, { error: 'must have at most 128 characters' }).default(hostname()),
})

export interface Config {
  readonly httpPort: number
  /** Undefined: all interfaces. */
  readonly httpHost: string | undefined
  readonly publicUrl: string
  readonly allowedOrigins: readonly string[]
  /** Undefined: the embedded server under `dataDirectory`. */
  readonly databaseUrl: string | undefined
  /** Absolute. */
  readonly dataDirectory: string
  /** Undefined: generated once into `<dataDirectory>/secret.key`. */
  readonly secretKey: string | undefined
  /** What `waybill secret rotate` seals secrets with instead of `secretKey`; a start takes whichever is in use. */
  readonly newSecretKey: string | undefined
  readonly auditKey: string | undefined
  readonly build: 'release' | 'developer'
  readonly modules: readonly string[]
  readonly logLevel: string
  readonly node: string
  /** How long a node may be silent before the deliveries that it works on go to another. */
  readonly deliveryLeaseSeconds: number
  /** When so many deliveries wait for a target, nothing more is taken in for it. */
  readonly maxWaitingDeliveries: number
}

/** A setting that cannot be used. The message names the variable and the rule, in one line. */
export class ConfigError extends OperatorError {
  override readonly name = 'ConfigError'
}

/** Parses the environment; an empty variable counts as one that is not set. */
export function parseConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const given = Object.fromEntries(Object.keys(environment.shape).map((name) => [name, optional(env[name])]))
  const parsed = environment.safeParse(given)
  if (!parsed.success) {
    throw new ConfigError(
      parsed.error.issues.map((issue) => `${String(issue.path[0])}: ${issue.message}`).join('; '),
    )
  }
  const settings = parsed.data
  const developer = settings.WAYBILL_BUILD === 'developer'
  if (developer && settings.HTTP_HOST !== undefined && !LOOPBACK_HOSTS.has(settings.HTTP_HOST)) {
    throw new ConfigError(
      'HTTP_HOST: the developer build listens on loopback only (127.0.0.1, ::1 or localhost)',
    )
  }
  return Object.freeze({
    httpPort: settings.HTTP_PORT,
    httpHost: settings.HTTP_HOST ?? (developer ? '127.0.0.1' : undefined),
    publicUrl: settings.PUBLIC_URL ?? localUrl(settings.HTTP_PORT),
    allowedOrigins: settings.ALLOWED_ORIGINS,
    databaseUrl: settings.DATABASE_URL,
    dataDirectory: resolve(settings.DATA_DIRECTORY),
    secretKey: settings.SECRET_KEY,
    newSecretKey: settings.NEW_SECRET_KEY,
    auditKey: settings.AUDIT_KEY,
    build: settings.WAYBILL_BUILD,
    modules: settings.WAYBILL_MODULES,
    logLevel: settings.LOG_LEVEL,
    node: settings.WAYBILL_NODE,
    deliveryLeaseSeconds: settings.DELIVERY_LEASE_SECONDS,
    maxWaitingDeliveries: settings.MAX_WAITING_DELIVERIES,
  })
}
