import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { setUpLoop, startLoop, type As2Loop } from '../support/as2-loop.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

/** 2.11: how the service names itself to its partners, over the wire. */

const LIMIT_MS = 90_000
const VERSION = (
  JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
).version

async function started(t: Test, directory: string): Promise<Waybill> {
  const waybill = await Waybill.start({ directory })
  t.teardown(async () => void (await waybill.stop()))
  return waybill
}

/** What travelled: the User-Agent of the sender, and the Server header and the receipt of the receiver. */
interface Travelled {
  readonly userAgent: string | undefined
  readonly server: string | null
  readonly receipt: string
}

/** A partner's address that hands everything on to the receiver and notes what it sees. */
async function listeningPost(t: Test, loop: As2Loop): Promise<{ url: string; travelled: Travelled[] }> {
  const travelled: Travelled[] = []
  const server = createServer((request, response) => {
    void (async () => {
      const { 'user-agent': userAgent, host: _, connection: __, ...headers } = request.headers
      const body = new Uint8Array(await buffer(request))
      const address = loop.receiverUrl
      const answer = await fetch(address, {
        method: 'POST',
        headers: headers as Record<string, string>,
        body,
      })
      const receipt = Buffer.from(await answer.arrayBuffer())
      travelled.push({ userAgent, server: answer.headers.get('server'), receipt: receipt.toString('latin1') })
      response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(receipt)
    })()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('No port')
  return { url: `http://127.0.0.1:${address.port}/as2`, travelled }
}

t.test('identification_hide_version: User-Agent and Server say the version, or not', async (t) => {
  const directory = await temporaryDirectory(t)
  const before = await started(t, directory)
  const loop = await setUpLoop(before, { directory })
  const { url, travelled } = await listeningPost(t, loop)
  await before.request('PUT', `/as2/remote-profiles/${loop.globex.partner}`, { endpoint: url })
  await startLoop(before)
  await mkdir(loop.outbox, { recursive: true })
  /** Sends a file through the loop, and answers what was seen on its way. */
  const send = async (name: string): Promise<Travelled | undefined> => {
    await writeFile(join(loop.outbox, name), `content of ${name}`)
    await until(() => existsSync(join(loop.inbox, name)), LIMIT_MS)
    return travelled.at(-1)
  }
  const named = { userAgent: `Waybill/${VERSION}`, server: `Waybill/${VERSION}` }

  t.match(await send('one.txt'), { ...named, receipt: new RegExp(`Reporting-UA: Waybill/${VERSION}`) })
  await before.request('PUT', '/settings', { identification_hide_version: true })
  t.match(await send('two.txt'), named, 'a saved change waits for the restart')
  t.equal(await before.stop(), 0)

  const after = await started(t, directory)
  await until(async () => {
    const { services } = await after.request<{ services: { status: string }[] }>('GET', '/services')
    return services.length === 5 && services.every(({ status }) => status === 'running')
  }, LIMIT_MS)
  const hidden = await send('three.txt')
  t.match(hidden, { userAgent: /^Waybill$/, server: /^Waybill$/, receipt: /Reporting-UA: Waybill\r\n/ })
  t.notMatch(hidden?.receipt, VERSION)
})
