import { z } from 'zod'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { instant } from '../../runtime/endpoint/instant.ts'
import { listOf, pagingParameters } from '../../runtime/endpoint/paging.ts'
import { listMessages } from '../../storage/exchange/messages.ts'
import { messageAnswer, messageStatus, shownMessage } from './message-answer.ts'
import { repetitionEndpoints } from './messages-again.ts'
import { existingMessage, messagePath, MESSAGES_TAG, type MessageServices } from './messages-lookup.ts'
import { payloadEndpoint } from './messages-payload.ts'
import { sendingEndpoint } from './messages-send.ts'

/** `/messages`. */

const MESSAGES_ON_A_PAGE = 50

/** What a message can be of or to; one that nobody is called, finds nothing. */
const partyFilter = z.string().min(1).max(255).optional()

export function messageEndpoints(services: MessageServices): readonly Endpoint[] {
  return [
    listEndpoint(services),
    sendingEndpoint(services),
    singleEndpoint(services),
    payloadEndpoint(services),
    ...repetitionEndpoints(services),
  ]
}

function listEndpoint({ pool, protocolViews }: MessageServices): Endpoint {
  return endpoint({
    method: 'GET',
    path: '/messages',
    operationId: 'listMessages',
    summary: 'List messages',
    description:
      'Filters combine. The total is exact, and page and total are of one moment. However many messages there are, the page takes about the same time, also one far back.',
    tag: MESSAGES_TAG,
    query: z.object({
      ...pagingParameters(MESSAGES_ON_A_PAGE),
      status: messageStatus.optional().meta({ description: 'Messages in this status.', examples: ['Error'] }),
      from: partyFilter.meta({
        description: 'Messages of the party of this name. An unknown name finds nothing.',
        examples: ['acme'],
      }),
      to: partyFilter.meta({
        description: 'Messages to the party of this name. An unknown name finds nothing.',
        examples: ['globex'],
      }),
      since: instant(
        'Messages created at this time (RFC 3339, with any offset) or later. A plus sign in it is written %2B.',
      ).optional(),
    }),
    answer: {
      kind: 'data',
      status: 200,
      schema: listOf('messages', messageAnswer),
      description: 'The page, newest first.',
    },
    handle: async ({ query }) => {
      const { limit, offset, ...filter } = query
      const { messages, total } = await listMessages(pool, filter, { limit, offset })
      return { messages: messages.map((each) => shownMessage(each, protocolViews)), total, limit, offset }
    },
  })
}

function singleEndpoint({ pool, protocolViews }: MessageServices): Endpoint {
  return endpoint({
    method: 'GET',
    path: '/messages/{id}',
    operationId: 'getMessage',
    summary: 'Get a message',
    description: 'With its payloads, its deliveries, its history and what the protocol tells of it.',
    tag: MESSAGES_TAG,
    params: messagePath,
    answer: { kind: 'data', status: 200, schema: messageAnswer, description: 'The message.' },
    handle: async ({ path }) => shownMessage(await existingMessage(pool, path.id), protocolViews),
  })
}
