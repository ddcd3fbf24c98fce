import { z } from 'zod'
import { crashPoint } from '../../runtime/crash-point.ts'
import { endpoint, type Endpoint } from '../../runtime/endpoint/endpoint.ts'
import { recordName } from '../../runtime/endpoint/record-rules.ts'
import { checked } from '../../runtime/endpoint/validation.ts'
import { Submissions } from '../../storage/exchange/submissions.ts'
import { messageAnswer, shownMessage } from './message-answer.ts'
import { existingMessage, MESSAGES_TAG, type MessageServices } from './messages-lookup.ts'

const FILE_LIMIT_BYTES = 64 * 1024 * 1024
const FILES_LIMIT = 50

const DESCRIPTION = `One of the parties must be an organization and the other a partner; where names are both, the message is outbound if it can be.

Without \`target\` the message goes to the one target that the routes from \`from\` to \`to\` name, of any source; when they name none or several, it must be sent. A target that does not run is no obstacle: the delivery waits for it. Routes have no other say in a message that is sent by hand, also when it is redispatched.

Several parts \`file\` make one message with several files, in their order (RFC 6362): its payload is one \`multipart/related\` body, its \`content_type\` names the boundary, and its \`file_name\` is that of the first file with a name. Of files with equal names the later ones get a number (\`order-2.xml\`), since receivers may refuse equal ones. An AS2 partner receives all files in one message; a file writer writes each as a file of its own; an HTTP poster posts them as they are.

The parts may come in any order. The file is stored while it arrives, and nothing of a request that is refused or broken off stays. The file's name is kept without directories and control characters; one without a name is called after the message's id. Its media type is that of the part, or by the ending of its name where the part does not say one, or says one that content cannot have: a multipart, or a type of S/MIME or of receipts. A file may be empty.`

/** Visible ASCII, as HTTP headers carry it unchanged. */
const idempotencyKey = z
  .string()
  .regex(/^[\x21-\x7e]{1,255}$/, { error: 'must have 1 to 255 visible ASCII characters' })
  .optional()
  .meta({
    description:
      'A text of your choice that names this sending. Repeated requests of one caller with the same key, such as after an answer that was lost, make one message, which each of them answers. A key that belongs to a message with other parties or other files is 409. A key is known as long as its message.',
    examples: ['order-4711-1'],
  })

const fieldsSchema = z.object({
  from: recordName,
  to: recordName,
  target: recordName.optional(),
})

/** POST /messages. */
export function sendingEndpoint(services: MessageServices): Endpoint {
  const { pool, supervisor, protocolViews, intake } = services
  const submissions = new Submissions({ ...services, admit: (target) => intake.assertOpen(target) })
  return endpoint({
    method: 'POST',
    path: '/messages',
    operationId: 'sendMessage',
    summary: 'Send a file, or several, by hand',
    description: DESCRIPTION,
    tag: MESSAGES_TAG,
    headers: z.object({ 'Idempotency-Key': idempotencyKey }),
    body: {
      kind: 'upload',
      maxBytes: FILE_LIMIT_BYTES,
      files: {
        file: `The file, at most 64 MiB; or up to ${FILES_LIMIT} files as parts of this name, together at most 64 MiB.`,
      },
      several: { file: FILES_LIMIT },
      fields: {
        from: 'Name of the sending party.',
        to: 'Name of the receiving party.',
        target: 'Name of the target plugin instance; left out or empty: the one that the routes name.',
      },
      required: ['from', 'to', 'file'],
      receive: async (file) => {
        intake.assertOpen()
        return submissions.take(file)
      },
    },
    answer: {
      kind: 'data',
      status: 201,
      schema: messageAnswer,
      description: 'The message, as GET shows it. Its source is `api`.',
    },
    errors: ['CONFLICT', 'QUEUE_FULL'],
    handle: async ({ body, headers, caller, log }) => {
      const files = body.received.get('file')
      if (files === undefined) throw new Error('A required part is missing')
      const named = [...body.fields].filter(([name, text]) => name !== 'target' || text !== '')
      const { from, to, target = null } = checked(fieldsSchema, Object.fromEntries(named))
      const submission = {
        from,
        to,
        target,
        sender: caller.name,
        idempotencyKey: headers['Idempotency-Key'] ?? null,
      }
      const { id, targets } = await submissions.send(files, submission, log)
      for (const each of targets) supervisor.announce(each, 1)
      crashPoint('api.message-announced')
      if (targets.length > 0) log.info({ message: id, targets, caller: caller.name }, 'Message sent by hand')
      return shownMessage(await existingMessage(pool, id), protocolViews)
    },
  })
}
