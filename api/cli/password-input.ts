import { createInterface } from 'node:readline'
import { Writable, type Readable } from 'node:stream'
import { OperatorError } from '../../runtime/errors.ts'
import { LONGEST_PASSWORD, refusalOfPassword } from '../../storage/identity/password.ts'
import type { CommandContext } from './context.ts'

/**
 * Reads a new password: at a terminal asked for twice and not shown, otherwise the one line of standard input. It never
 * stands in the arguments, which every user of the machine can read.
 */
export async function readNewPassword({ input, say }: CommandContext): Promise<string> {
  const password = input.isTTY === true ? await askTwice(input, say) : await firstLine(input)
  const refusal = refusalOfPassword(password)
  if (refusal !== null) throw new OperatorError(`The password ${refusal}`)
  return password
}

async function askTwice(input: Readable, say: CommandContext['say']): Promise<string> {
  say('Password:')
  const password = await hiddenLine(input)
  say('Once more:')
  if ((await hiddenLine(input)) !== password) throw new OperatorError('The two passwords differ')
  return password
}

/** The terminal editing of readline, with what it echoes thrown away. */
async function hiddenLine(input: Readable): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const reader = createInterface({ input, output: nowhere, terminal: true, historySize: 0 })
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  reader.once('line', resolve)
  reader.once('SIGINT', () => reject(new OperatorError('Given up')))
  reader.once('close', () => reject(new OperatorError('There is no password')))
  try {
    return await promise
  } finally {
    reader.close()
  }
}

/** UTF-8, in which a character has at most four bytes. */
const MOST_BYTES = 4 * LONGEST_PASSWORD + 2

async function firstLine(input: Readable): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of input) {
    const bytes = Buffer.from(chunk as Uint8Array)
    chunks.push(bytes)
    length += bytes.length
    if (bytes.includes(0x0a) || length > MOST_BYTES) break
  }
  const [line = ''] = Buffer.concat(chunks).toString('utf8').split('\n', 1)
  return line.replace(/\r$/, '')
}
