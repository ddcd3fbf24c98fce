import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type * as AdaptiveCards from 'adaptivecards'
import { Ajv, type SchemaObject } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { createGenerator } from 'ts-json-schema-generator'
import { parse } from 'yaml'
import type { Format } from '../../../actors/notifications/formats/format.ts'
import { SLACK_LIMITS, TEAMS_LIMITS, TEAMS_MAX_BYTES } from './published-limits.ts'

/**
 * Holds what is posted against what is published: `generic` against the document of the API; `slack` against the types of
 * Block Kit and its limits; `teams` against the types of the cards, their limits, and Microsoft's own reader of cards, as
 * one that knows version 1.4 and nothing newer.
 */

/** What is wrong with a body, in words; null for nothing. */
export type Check = (body: unknown) => string | null

const PUBLISHED = fileURLToPath(new URL('./published-formats.ts', import.meta.url))
const TSCONFIG = fileURLToPath(new URL('../../../tsconfig.json', import.meta.url))

/** The bundle: the single modules of the package are for other bundlers alone. */
const { AdaptiveCard, SerializationContext, Versions } = createRequire(import.meta.url)(
  'adaptivecards/dist/adaptivecards.js',
) as typeof AdaptiveCards

/** `document` is the OpenAPI document as it is served. */
export function publishedChecks(document: string): Readonly<Record<Format, Check>> {
  const ours = new Ajv2020({ strict: false, formats: { 'date-time': true } })
  ours.addSchema(parse(document) as object, 'openapi')
  return {
    generic: (body) =>
      ours.validate({ $ref: 'openapi#/components/schemas/AlertPost' }, body) ? null : ours.errorsText(),
    slack: all(matches(schemaOf('SlackMessage')), matches(SLACK_LIMITS)),
    teams: all(matches(schemaOf('TeamsMessage')), matches(TEAMS_LIMITS), isSmall, isRead),
  }
}

/** The first that finds something wrong says it. */
function all(...checks: readonly Check[]): Check {
  return (body) => {
    for (const check of checks) {
      const wrong = check(body)
      if (wrong !== null) return wrong
    }
    return null
  }
}

function matches(schema: SchemaObject): Check {
  const ajv = new Ajv({ strict: false, discriminator: true, formats: { 'web-address': isWebAddress } })
  const validate = ajv.compile(schema)
  return (body) => (validate(body) ? null : ajv.errorsText(validate.errors))
}

function isWebAddress(text: string): boolean {
  return /^https?:\/\/[!-~]+$/.test(text) && URL.canParse(text)
}

/** A JSON Schema of a type that allows no property which the type does not name. */
function schemaOf(type: string): SchemaObject {
  // All types are named in the schema, as some contain themselves.
  const config = {
    path: PUBLISHED,
    tsconfig: TSCONFIG,
    type,
    expose: 'all',
    skipTypeCheck: true,
    additionalProperties: false,
  } as const
  return createGenerator(config).createSchema(type) as SchemaObject
}

function isSmall(body: unknown): string | null {
  const text = JSON.stringify(body)
  const bytes = Math.max(Buffer.byteLength(text), Buffer.byteLength(text, 'utf16le'))
  return bytes < TEAMS_MAX_BYTES ? null : `The message has ${bytes} bytes`
}

/** What the reader of cards does not know, or knows of a newer version alone, or misses. */
function isRead(body: unknown): string | null {
  const { attachments } = body as { readonly attachments: readonly { readonly content: object }[] }
  const found = attachments.flatMap(({ content }) => {
    const card = new AdaptiveCard()
    const context = new SerializationContext(Versions.v1_4)
    card.parse(content, context)
    const events = Array.from({ length: context.eventCount }, (_, at) => context.getEventAt(at))
    return [...events, ...card.validateProperties().validationEvents].map(({ message }) => message)
  })
  return found.length === 0 ? null : found.join('; ')
}
