import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { inflateSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { makeCertificate } from '../support/certificates.ts'
import { setUpLoop, startLoop, type As2Loop } from '../support/as2-loop.ts'
import { dropFile } from '../support/file-set.ts'
import { temporaryDirectory, until } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

// Two services start, and wait for what they exchange.
t.setTimeout(300_000)

/** What the service puts on the wire, opened by openssl, and what openssl made, taken by the service. */
const openssl = (...args: readonly string[]): Buffer =>
  execFileSync('openssl', args, { stdio: ['ignore', 'pipe', 'pipe'] })

async function begin(t: Test): Promise<{ directory: string; waybill: Waybill; loop: As2Loop }> {
  const directory = await temporaryDirectory(t)
  const waybill = await Waybill.start({ directory })
  t.teardown(async () => waybill.stop())
  const loop = await setUpLoop(waybill, { directory })
  await startLoop(waybill)
  return { directory, waybill, loop }
}

/**
 * Has openssl verify a multipart/signed entity and answers the signed part. It is given the two parts, because its own
 * parser of MIME changes line ends.
 */
async function verified(directory: string, entity: Buffer, authority: string): Promise<Buffer> {
  const [part, signature] = [join(directory, 'signed-part'), join(directory, 'signature.der')]
  const boundary = `--${/boundary="([^"]+)"/.exec(entity.toString('latin1'))?.[1]}`
  const start = entity.indexOf(`${boundary}\r\n`) + boundary.length + 2
  const end = entity.indexOf(`\r\n${boundary}\r\n`, start)
  const rest = entity.subarray(entity.indexOf('\r\n\r\n', end + 4) + 4).toString('latin1')
  await writeFile(part, entity.subarray(start, end))
  await writeFile(signature, Buffer.from(rest.split('--')[0] ?? '', 'base64'))
  const input = ['-binary', '-inform', 'DER', '-in', signature, '-content', part]
  return openssl('cms', '-verify', ...input, '-CAfile', authority, '-purpose', 'any')
}

interface Listed {
  readonly id: number
  readonly name: string
}

async function idOf(waybill: Waybill, resource: string, name: string): Promise<number> {
  const data = await waybill.request<Record<string, Listed[]>>('GET', `/${resource}`)
  const found = data[resource]?.find((each) => each.name === name)
  if (found === undefined) throw new Error(`No ${name} among the ${resource}`)
  return found.id
}

/** A partner that only keeps what it is sent. */
async function recorder(
  t: Test,
): Promise<{ url: string; received: { headers: IncomingHttpHeaders; body: Buffer }[] }> {
  const received: { headers: IncomingHttpHeaders; body: Buffer }[] = []
  const keep = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    received.push({ headers: request.headers, body: await buffer(request) })
    response.end()
  }
  const server = createServer((request, response) => void keep(request, response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => server.close())
  const address = server.address()
  return { url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/as2`, received }
}

void t.test('openssl decrypts and verifies what the sender puts on the wire', async (t) => {
  const { directory, waybill, loop } = await begin(t)
  const partner = makeCertificate({ commonName: 'Partner' })
  const certificate = await waybill.upload<Listed>('/certificates', {
    certificate: new Blob([partner.certificatePem]),
    description: 'the partner',
  })
  const { url, received } = await recorder(t)
  const globex = await idOf(waybill, 'partners', 'globex')
  const change = { endpoint: url, partner_certificate_id: certificate.id }
  await waybill.request('PUT', `/as2/remote-profiles/${globex}`, change)
  const content = randomBytes(20_000)
  await dropFile(loop.outbox, 'Größe.edi', content)
  await until(() => received.length > 0)

  const [message] = received
  t.match(message?.headers, { 'as2-from': 'ACME-AS2', 'as2-to': '"GLOBEX AS2"', 'as2-version': /^1\./ })
  t.match(message?.headers['content-type'], /^application\/pkcs7-mime; smime-type=enveloped-data/)
  const at = (name: string): string => join(directory, name)
  await writeFile(at('partner.pem'), partner.certificatePem)
  await writeFile(at('partner.key'), partner.privateKeyPem)
  await writeFile(at('encrypted.der'), message?.body ?? '')
  t.match(
    openssl('cms', '-cmsout', '-print', '-inform', 'DER', '-in', at('encrypted.der')).toString(),
    /aes-256-cbc/,
  )
  const decrypted = openssl(
    'cms',
    '-decrypt',
    '-inform',
    'DER',
    '-in',
    at('encrypted.der'),
    '-recip',
    at('partner.pem'),
    '-inkey',
    at('partner.key'),
  )

  const acme = (
    await waybill.request<{ certificates: { id: number; common_name: string }[] }>('GET', '/certificates')
  ).certificates.find(({ common_name }) => common_name === 'Acme Pumps')
  const pem = await fetch(`${waybill.url}/api/v1/certificates/${acme?.id}/download`)
  await writeFile(at('acme.pem'), await pem.text())
  const signedPart = await verified(directory, decrypted, at('acme.pem'))

  // This openssl is built without zlib: it takes the compressed data apart, and zlib inflates it.
  await writeFile(at('compressed.der'), signedPart.subarray(signedPart.indexOf('\r\n\r\n') + 4))
  const parsed = openssl('asn1parse', '-inform', 'DER', '-in', at('compressed.der')).toString()
  const offset = Number(
    [...parsed.matchAll(/^\s*(\d+):d=\d+\s+hl=(\d+) l=\s*\d+ prim: OCTET STRING/gm)].at(-1)?.[1],
  )
  await writeFile(at('zlib'), '')
  openssl(
    'asn1parse',
    '-inform',
    'DER',
    '-in',
    at('compressed.der'),
    '-strparse',
    String(offset),
    '-noout',
    '-out',
    at('zlib'),
  )
  const entity = inflateSync(await readFile(at('zlib')))
  t.ok(entity.subarray(entity.indexOf('\r\n\r\n') + 4).equals(content), 'the file, byte for byte')
})

void t.test(
  'the receiver takes what openssl signed and encrypted, and answers with a signed receipt',
  async (t) => {
    const { directory, waybill, loop } = await begin(t)
    const partner = makeCertificate({ commonName: 'Partner' })
    const certificate = await waybill.upload<Listed>('/certificates', {
      certificate: new Blob([partner.certificatePem]),
      description: 'the partner',
    })
    const acme = await idOf(waybill, 'partners', 'acme')
    await waybill.request('PUT', `/as2/remote-profiles/${acme}`, {
      partner_signing_certificate_id: certificate.id,
    })
    const own = (
      await waybill.request<{ certificates: { id: number; common_name: string }[] }>('GET', '/certificates')
    ).certificates.find(({ common_name }) => common_name === 'Globex Waterworks')
    const at = (name: string): string => join(directory, name)
    await writeFile(
      at('globex.pem'),
      await (await fetch(`${waybill.url}/api/v1/certificates/${own?.id}/download`)).text(),
    )
    await writeFile(at('partner.pem'), partner.certificatePem)
    await writeFile(at('partner.key'), partner.privateKeyPem)
    const content = "UNB+UNOC:3+A:14+B:14+261121:0800+1'\r\n"
    const head =
      'Content-Type: application/edifact\r\nContent-Disposition: attachment; filename="from openssl.edi"\r\n\r\n'
    await writeFile(at('entity'), head + content)
    const signed = openssl(
      'cms',
      '-sign',
      '-binary',
      '-md',
      'sha256',
      '-signer',
      at('partner.pem'),
      '-inkey',
      at('partner.key'),
      '-in',
      at('entity'),
    )
    await writeFile(at('signed'), signed)
    const encrypted = openssl(
      'cms',
      '-encrypt',
      '-binary',
      '-aes-256-cbc',
      '-outform',
      'DER',
      '-in',
      at('signed'),
      at('globex.pem'),
    )
    const response = await fetch(loop.receiverUrl, {
      method: 'POST',
      headers: {
        'as2-version': '1.2',
        'as2-from': 'ACME-AS2',
        'as2-to': '"GLOBEX AS2"',
        'message-id': '<openssl-1@partner>',
        'content-type': 'application/pkcs7-mime; smime-type=enveloped-data; name="smime.p7m"',
        'disposition-notification-to': 'partner@example.org',
        'disposition-notification-options':
          'signed-receipt-protocol=required, pkcs7-signature; signed-receipt-micalg=required, sha256',
      },
      body: new Uint8Array(encrypted),
    })
    t.equal(response.status, 200)
    const receipt = Buffer.from(await response.arrayBuffer())
    t.match(
      receipt.toString('latin1'),
      /Disposition: automatic-action\/MDN-sent-automatically; processed\r\n/,
    )
    const contentType = `Content-Type: ${response.headers.get('content-type')}\r\n\r\n`
    await verified(directory, Buffer.concat([Buffer.from(contentType), receipt]), at('globex.pem'))
    t.pass('openssl verifies the receipt')
    const arrived = join(loop.inbox, 'from openssl.edi')
    await until(async () => (await readFile(arrived, 'utf8').catch(() => '')) === content)
  },
)
