import type { Webhook } from '../../../runtime/module.ts'
import { examplesOf } from './examples.ts'
import type { JsonObject } from './json.ts'
import { addComponent, schemaOf, type Components } from './schemas.ts'

/** A request that the service makes itself, as whoever takes it sees it. */
export function posted(webhook: Webhook, components: Components): JsonObject {
  const { name, summary, description, tag, body } = webhook
  // As input: a receiver takes properties that a later version adds.
  addComponent(components, body.name, schemaOf(body.schema, 'input', components))
  const schema = { $ref: `#/components/schemas/${body.name}` }
  return {
    operationId: `${name}Webhook`,
    summary,
    description,
    tags: [tag],
    security: [],
    requestBody: {
      description: 'A JSON object. Later versions may add properties.',
      required: true,
      content: { 'application/json': { schema, ...examplesOf(schema, components) } },
    },
    responses: {
      '2XX': { description: 'Any success: the post was taken, and is not repeated.' },
      '4XX': {
        description:
          'A refusal, which is final. After 408, 425 and 429 the post is repeated, with the same `webhook-id`.',
      },
      '5XX': { description: 'A failure: the post is repeated, with the same `webhook-id`.' },
    },
  }
}
