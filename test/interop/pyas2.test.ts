import { randomBytes } from 'node:crypto'
import t from 'tap'
import { makeCertificate } from '../support/certificates.ts'
import { temporaryDirectory } from '../support/processes.ts'
import { reservePort } from '../support/reserved-port.ts'
import { Waybill } from '../support/waybill.ts'
import { PyAs2, type PyAs2Case } from './pyas2/pyas2.ts'
import { as2IdOf, digestOf, OUR_AS2_ID, Site, type SiteCase } from './site.ts'

/** A partner made of pyas2lib and the service exchange files in both directions. */

const PROCESSED = 'automatic-action/MDN-sent-automatically; processed'

interface Row extends SiteCase {
  readonly what: string
  readonly partner: PyAs2Case['partner']
  /** Of our facts, in both directions. */
  readonly algorithms: { readonly signature: string | null; readonly encryption: string | null }
  readonly compressed?: boolean
}

function row(
  what: string,
  signature: 'SHA1' | 'SHA256' | 'SHA384' | 'SHA512' | null,
  encryption: '3DES' | 'AES128-CBC' | 'AES192-CBC' | 'AES256-CBC' | null,
  more: { profile?: SiteCase['profile']; partner?: PyAs2Case['partner']; compressed?: boolean } = {},
): Row {
  const { compressed = false, profile = {}, partner = {} } = more
  const cipher =
    encryption === '3DES' ? 'tripledes_192_cbc' : encryption?.toLowerCase().replace(/aes(\d+)-/, 'aes_$1_')
  return {
    name: what.toLowerCase().replaceAll(/[^a-z\d]+/g, '-'),
    what,
    algorithms: { signature, encryption },
    compressed,
    profile: {
      signing_algorithm: signature ?? 'None',
      encryption_algorithm: encryption ?? 'None',
      compression: compressed ? 'BeforeSigning' : 'None',
      require_signed: signature !== null,
      require_encrypted: encryption !== null,
      ...profile,
    },
    partner: {
      sign: signature !== null,
      digest_alg: signature?.toLowerCase() ?? 'sha256',
      encrypt: encryption !== null,
      enc_alg: cipher ?? 'aes_256_cbc',
      compress: compressed,
      mdn_mode: 'SYNC',
      mdn_digest_alg: signature?.toLowerCase() ?? 'sha256',
      ...partner,
    },
  }
}

const ROWS: readonly Row[] = [
  ...(['SHA1', 'SHA256', 'SHA384', 'SHA512'] as const).map((digest) =>
    row(`signed with ${digest}`, digest, null),
  ),
  ...(['3DES', 'AES128-CBC', 'AES192-CBC', 'AES256-CBC'] as const).map((cipher) =>
    row(`signed and encrypted with ${cipher}`, 'SHA256', cipher),
  ),
  row('encrypted, not signed', null, 'AES256-CBC'),
  row('compressed and signed', 'SHA256', null, { compressed: true }),
  row('compressed, signed and encrypted', 'SHA256', 'AES256-CBC', { compressed: true }),
  row('signed with PSS', 'SHA256', 'AES256-CBC', {
    profile: { signature_scheme: 'PSS' },
    partner: { sign_alg: 'rsassa_pss' },
  }),
  row('encrypted with OAEP', 'SHA256', 'AES256-CBC', {
    profile: { key_transport: 'OAEP', oaep_digest: 'SHA1' },
    partner: { key_enc_alg: 'rsaes_oaep' },
  }),
  row('with an unsigned receipt', 'SHA256', 'AES256-CBC', {
    profile: { receipt_signed: false },
    partner: { mdn_digest_alg: null },
  }),
]

const FILE_NAME = 'orders of today.edi'
const contentOf = (name: string): Buffer<ArrayBuffer> =>
  Buffer.concat([Buffer.from(`${name}\r\n`.repeat(50)), randomBytes(1_000), Buffer.from('\nend\r\n')])

void t.test('pyas2lib and the service exchange files', async (t) => {
  const directory = await temporaryDirectory(t)
  const receiver = await reservePort()
  const [ours, theirs, stranger] = ['Waybill', 'pyas2lib', 'Stranger'].map((commonName) =>
    makeCertificate({ commonName }),
  ) as [
    ReturnType<typeof makeCertificate>,
    ReturnType<typeof makeCertificate>,
    ReturnType<typeof makeCertificate>,
  ]
  const partnerUrl = `http://${receiver.host}:${receiver.port}/as2`
  const peer = await PyAs2.start(t, directory, {
    keys: theirs,
    cases: ROWS.map(({ name, partner }) => ({
      name,
      as2Id: as2IdOf({ name }),
      partnerAs2Id: OUR_AS2_ID,
      partnerUrl,
      partnerCertificate: ours.certificatePem,
      partner,
    })),
  })
  const waybill = await Waybill.start({ directory })
  t.teardown(async () => void (await waybill.stop()))
  const keys = { ours, theirs, stranger }
  const site = new Site({ waybill, directory, cases: ROWS, receiver, peerUrl: peer.url, keys })
  await site.setUp()

  for (const each of ROWS) {
    const { name, what, algorithms, compressed } = each
    const { signature, encryption } = algorithms
    const expected = { signed: signature !== null, encrypted: encryption !== null, compressed, algorithms }

    await t.test(`we send ${what}`, async (t) => {
      const content = contentOf(name)
      const message = await site.settled(await site.send(name, FILE_NAME, content))
      if (!t.equal(message.status, 'Delivered')) t.comment(JSON.stringify(message, null, 1))
      t.match(message.protocols.as2, expected)
      t.match(message.protocols.as2?.receipt, { state: 'received', disposition: PROCESSED })
      const [taken] = await peer.received(name)
      t.match(taken, { status: 'processed', error: null, fileName: FILE_NAME, signed: signature !== null })
      t.match(taken, { encrypted: encryption !== null, compressed })
      t.equal(
        digestOf(Buffer.from(taken?.content ?? '', 'base64')),
        digestOf(content),
        'the file is the same',
      )
      // It computes none for what is not signed.
      t.equal(message.protocols.as2?.receipt?.mic_matches, signature === null ? null : true)
    })

    await t.test(`pyas2lib sends ${what}`, async (t) => {
      const content = contentOf(name)
      const sent = await peer.send(name, FILE_NAME, content)
      t.match(sent, { httpStatus: 200, status: 'processed' })
      const [message] = await site.settledFrom(name)
      t.match(message, { status: 'Delivered', file_name: FILE_NAME, protocols: { as2: expected } })
      t.match(message?.protocols.as2?.receipt, { state: 'sent', disposition: PROCESSED })
      if (signature !== null)
        t.equal(message?.protocols.as2?.receipt?.mic, sent.mic, 'both have the same MIC')
      t.equal(digestOf(await site.written(name, FILE_NAME)), digestOf(content), 'the file is the same')
    })
  }
})
