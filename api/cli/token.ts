import { systemClock } from '../../runtime/clock.ts'
import { SYSTEM_CALLER } from '../../runtime/endpoint/endpoint.ts'
import { recordName } from '../../runtime/endpoint/record-rules.ts'
import { checked } from '../../runtime/endpoint/validation.ts'
import { apiTokenSchema } from '../../storage/identity/api-token.ts'
import { ApiTokens } from '../../storage/identity/api-tokens.ts'
import { withDatabase } from './command-database.ts'
import type { CommandContext, CommandDefinition, Given } from './context.ts'

const schema = apiTokenSchema.extend({ service_account: recordName })

export const tokenCommands: readonly CommandDefinition[] = [
  {
    name: 'token create',
    summary: 'make an API token and print it; a service account that is missing is made as a local one',
    operands: [],
    options: { 'service-account': 'name', label: 'text', 'expires-in-days': 'number' },
    required: ['service-account', 'label'],
    run: createToken,
  },
]

async function createToken({ options }: Given, context: CommandContext): Promise<void> {
  const days = options['expires-in-days']
  const values = checked(schema, {
    service_account: options['service-account'],
    label: options['label'],
    ...(days === undefined ? {} : { expires_in_days: /^\d+$/.test(days) ? Number(days) : days }),
  })
  const { token, text } = await withDatabase(context, ({ orm, audit }) =>
    new ApiTokens({ orm, audit, clock: systemClock }).createWithAccount(values, SYSTEM_CALLER),
  )
  context.say(
    `API token ${token.label} of the service account ${token.service_account}, until ${token.expires_at.toISOString()}.`,
  )
  context.say('It is not shown again. Send it as the header Authorization: Bearer <token>.')
  context.print(text)
}
