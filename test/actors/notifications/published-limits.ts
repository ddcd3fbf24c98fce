import type { SchemaObject } from 'ajv'

/**
 * What Slack and Microsoft say in words about the messages that they take, and what no published type can say: limits,
 * and what must be there. A block that is not here may not be posted before its limits are.
 */

/** Of docs.slack.dev, reference of Block Kit. */
export const SLACK_LIMITS: SchemaObject = {
  type: 'object',
  required: ['text', 'blocks'],
  properties: {
    text: { type: 'string', minLength: 1, maxLength: 40_000 },
    blocks: { type: 'array', minItems: 1, maxItems: 50, items: { $ref: '#/definitions/block' } },
  },
  definitions: {
    block: {
      type: 'object',
      required: ['type'],
      discriminator: { propertyName: 'type' },
      oneOf: [
        block('header', { text: text(150, ['plain_text']) }),
        block('section', { text: text(3_000) }),
        block('context', { elements: { type: 'array', minItems: 1, maxItems: 10, items: text(3_000) } }),
      ],
    },
  },
}

function block(type: string, properties: Readonly<Record<string, SchemaObject>>): SchemaObject {
  return { required: Object.keys(properties), properties: { type: { const: type }, ...properties } }
}

function text(maxLength: number, types: readonly string[] = ['plain_text', 'mrkdwn']): SchemaObject {
  return {
    type: 'object',
    required: ['type', 'text'],
    properties: { type: { enum: types }, text: { type: 'string', minLength: 1, maxLength } },
  }
}

/** Teams refuses larger posts, on some of its ways counted as UTF-16. */
export const TEAMS_MAX_BYTES = 28 * 1024

/** Of adaptivecards.io, schema explorer, and learn.microsoft.com, incoming webhooks: whatever the types let be left out. */
export const TEAMS_LIMITS: SchemaObject = {
  $ref: '#/definitions/any',
  definitions: {
    any: {
      allOf: [
        whatIs('message', { attachments: { type: 'array', minItems: 1, maxItems: 1 } }),
        whatIs('AdaptiveCard', {
          $schema: { const: 'http://adaptivecards.io/schemas/adaptive-card.json' },
          version: { const: '1.4' },
          fallbackText: { type: 'string', minLength: 1 },
          body: { type: 'array', minItems: 1 },
        }),
        whatIs('Container', { items: { type: 'array', minItems: 1 } }),
        whatIs('RichTextBlock', { inlines: { type: 'array', minItems: 1 } }),
        whatIs('TextRun', { text: { type: 'string', minLength: 1 } }),
        whatIs('TextBlock', { text: { type: 'string', minLength: 1 } }),
        whatIs('Action.OpenUrl', { url: { type: 'string', format: 'web-address' } }),
        // A button shows its title; what is selected in place shows itself.
        { properties: { actions: { items: { required: ['title'] } } } },
        { properties: { title: { minLength: 1 } } },
      ],
      items: { $ref: '#/definitions/any' },
      additionalProperties: { $ref: '#/definitions/any' },
    },
  },
}

/** An object of this type has these properties. */
function whatIs(type: string, properties: Readonly<Record<string, SchemaObject>>): SchemaObject {
  const isIt = { type: 'object', required: ['type'], properties: { type: { const: type } } }
  return { anyOf: [{ not: isIt }, { required: Object.keys(properties), properties }] }
}
