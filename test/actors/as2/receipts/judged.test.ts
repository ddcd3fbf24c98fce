import t from 'tap'
import type { DigestName } from '../../../../actors/as2/protocol/algorithms.ts'
import { formatMic, micOf, type Mic } from '../../../../actors/as2/protocol/mic.ts'
import { splitMultipart } from '../../../../actors/as2/protocol/mime.ts'
import { HeaderFields } from '../../../../runtime/mime/headers.ts'
import { MODE, startAnswering, type Arrived, type Behaviour } from './answering-partner.ts'

// What synchronous receipts say, as partners write them, and what it means for the delivery.
t.setTimeout(300_000)

const { acme, loop, send, receipt } = await startAnswering(t)

const POSITIVE: readonly string[] = [
  `${MODE}; processed`,
  `${MODE};processed`,
  `${MODE} ; Processed`,
  'Automatic-Action/mdn-sent-automatically; PROCESSED',
  'manual-action/MDN-sent-manually; processed',
  `${MODE};\r\n\tprocessed`,
  `${MODE}; processed/warning: duplicate-document`,
  `${MODE}; processed/Warning: authentication-failed, processing continued`,
  `${MODE}; processed/warning`,
  `${MODE}; processed (all fine)`,
  `${MODE} (by hand; or not); processed`,
  `${MODE}; processed;`,
]

for (const disposition of POSITIVE) {
  void t.test(`${JSON.stringify(disposition)} confirms the message`, async (t) => {
    const { state, message } = await send(receipt({ disposition }))
    t.equal(state, 'delivered')
    t.match(message.protocols.as2?.receipt, { state: 'received', mic_matches: true })
    t.ok(message.history.some(({ kind }) => kind === 'mdn_received'))
    const kept = await acme.stage(message, 'receipt')
    t.match(String(kept), /^content-type: multipart\/signed/i, 'it is kept as it travelled')
  })
}

const NEGATIVE: readonly string[] = [
  `${MODE}; processed/error: authentication-failed`,
  `${MODE}; processed/Error: unknown-trading-partner`,
  `${MODE};processed/error:signed-message-required`,
  `${MODE}; processed/error: decompresion-failed`,
  `${MODE}; processed/Error:decryption-failed`,
  `${MODE} ;processed/error: insufficient-message-security`,
  `${MODE}; processed/error`,
  `${MODE}; processed/error: duplicate-filename`,
  `${MODE}; failed/failure: unsupported format`,
  `${MODE}; failed/Failure: unsupported MIC-algorithms`,
  `${MODE}; failed/failure: sender-equals-receiver`,
  `${MODE}; failed`,
  `${MODE}; processed/failure: disk full`,
  `${MODE}; processed/whatever: this is`,
  `${MODE}; processed (in part) /error: decryption-failed`,
]

for (const disposition of NEGATIVE) {
  void t.test(`${JSON.stringify(disposition)} fails the delivery at once`, async (t) => {
    const { state, error, message } = await send(receipt({ disposition, mic: () => null }))
    t.equal(state, 'failed')
    t.match(error, /^The partner refused the message: /)
    t.match(error, disposition.slice(disposition.indexOf(';') + 1).trim())
    t.match(message.protocols.as2?.receipt, { state: 'refused' })
    t.ok(message.history.some(({ kind }) => kind === 'mdn_refused'))
  })
}

const MICS: Readonly<Record<string, readonly [(of: Mic) => string | null, boolean | null]>> = {
  'spelt sha256, without a space': [({ value }) => `${value},sha256`, true],
  'spelt SHA2_256': [({ value }) => `${value}, SHA2_256`, true],
  'without an algorithm': [({ value }) => value, true],
  'with a comment': [({ value }) => `${value}, sha-256 (as asked for)`, true],
  'named by the algorithm of the signature': [({ value }) => `${value}, SHA256withRSA`, true],
  folded: [({ value }) => `${value.slice(0, 20)}\r\n ${value.slice(20)}, sha-256`, true],
  'of other content': [() => formatMic(micOf('SHA256', Buffer.from('other'))), false],
  'by another algorithm': [() => formatMic(micOf('SHA1', Buffer.from('content'))), false],
  'with the name of another algorithm': [({ value }) => `${value}, sha-512`, false],
  'that is missing': [() => null, null],
}

for (const [name, [mic, matches]] of Object.entries(MICS)) {
  void t.test(
    `a MIC ${name} ${matches === true ? 'confirms' : 'does not confirm'} the message`,
    async (t) => {
      const { state, message } = await send(receipt({ mic }))
      t.equal(state, matches === true ? 'delivered' : 'failed')
      const expected = { state: matches === true ? 'received' : 'refused', mic_matches: matches }
      t.match(message.protocols.as2?.receipt, expected)
    },
  )
}

void t.test('a SHA-512 MIC confirms, folded as it comes', async (t) => {
  await acme.profile('globex', { signing_algorithm: 'SHA512' })
  const mic = ({ value }: Mic): string => `${value.slice(0, 64)}\r\n\t${value.slice(64)},\r\n sha512`
  const { state } = await send(receipt({ mic }))
  await acme.profile('globex', { signing_algorithm: 'SHA256' })
  t.equal(state, 'delivered')
})

const UNREADABLE: Readonly<Record<string, (of: Mic) => string>> = {
  'too short': () => 'AAAA, sha-256',
  'under the name of another algorithm': ({ value }) => `${value}, sha1`,
  'that is no base64': () => '<none>',
}

for (const [name, mic] of Object.entries(UNREADABLE)) {
  void t.test(`a MIC ${name} is not that of the message, and is told, signed or not`, async (t) => {
    for (const wishes of [{}, { signer: null }]) {
      await acme.profile('globex', { receipt_signed: !('signer' in wishes) })
      let written = ''
      const { state, error, message } = await send(receipt({ ...wishes, mic: (of) => (written = mic(of)) }))
      t.equal(state, 'failed')
      t.equal(error, `The MIC of the receipt cannot be read: ${written}`)
      const told = { state: 'refused', mic: written, mic_matches: false }
      t.match(message.protocols.as2?.receipt, told)
    }
    await acme.profile('globex', { receipt_signed: true })
  })
}

const PLAIN = { signing_algorithm: 'None', receipt_signed: false, compression: 'None' }
const LAYERS = {
  plain: { ...PLAIN, encryption_algorithm: 'None' },
  encrypted: { ...PLAIN, encryption_algorithm: 'AES256-CBC' },
  compressed: { ...PLAIN, encryption_algorithm: 'None', compression: 'BeforeSigning' },
}
const AS_BEFORE = {
  signing_algorithm: 'SHA256',
  receipt_signed: true,
  compression: 'BeforeSigning',
  encryption_algorithm: 'AES256-CBC',
}

for (const [name, layers] of Object.entries(LAYERS)) {
  void t.test(
    `${name} and unsigned, a right MIC confirms in the digest asked for and in SHA-1`,
    async (t) => {
      await acme.profile('globex', layers)
      let asked: string | undefined
      const unsigned: Behaviour = async (message, response) => {
        asked = new Map(message.headers).get('Disposition-Notification-Options')
        await receipt({ signer: null })(message, response)
      }
      for (const options of [undefined, null, 'signed-receipt-micalg=optional, sha-256']) {
        const { state, error, message } = await send(unsigned, options)
        t.equal(state, 'delivered', `${options}: ${error}`)
        t.match(message.protocols.as2, { mic_algorithm: 'SHA256', receipt: { mic_matches: true } })
      }
      t.equal(asked, 'signed-receipt-micalg=optional, sha-256')
      const over = (bytes: (message: Arrived) => Buffer): Behaviour =>
        receipt({ signer: null, mic: (_, message) => formatMic(micOf('SHA1', bytes(message))) })
      if (name !== 'encrypted')
        t.equal(
          (await send(over(({ content }) => content))).state,
          'delivered',
          'also over the content alone',
        )
      t.equal((await send(over(() => Buffer.from('other')))).state, 'failed', 'a wrong one never does')
      await acme.profile('globex', AS_BEFORE)
    },
  )
}

void t.test(
  'a right MIC in any SHA over the signed part confirms a message signed with SHA-256',
  async (t) => {
    await acme.profile('globex', { encryption_algorithm: 'None' })
    const overPart = (algorithm: DigestName) => (_: Mic, message: Arrived) => {
      const [part] = splitMultipart(
        new HeaderFields(message.headers).get('content-type') ?? '',
        message.body,
        2,
      )
      return formatMic(micOf(algorithm, part ?? Buffer.alloc(0)))
    }
    for (const receipt_mode of ['Sync', 'Async']) {
      await acme.profile('globex', { receipt_mode })
      for (const algorithm of ['SHA1', 'SHA256', 'SHA384', 'SHA512'] as const) {
        const { state, message } = await send(receipt({ mic: overPart(algorithm) }))
        t.equal(state, 'delivered', algorithm)
        t.match(message.protocols.as2, { mic_algorithm: 'SHA256', receipt: { mic_matches: true } })
      }
      const { state, error } = await send(receipt({ mic: overPart('MD5') }))
      t.equal(state, 'failed')
      t.equal(error, 'The MIC of the receipt is in MD5, a digest in which none counts')
    }
    await acme.profile('globex', { receipt_mode: 'Sync' })
    await acme.profile('globex', AS_BEFORE)
  },
)

void t.test('a receipt within its signature is read as one beside it', async (t) => {
  const opaque = (signer = loop.globex.keys): Behaviour => receipt({ signer, isOpaque: true })
  const { state, message } = await send(opaque())
  t.equal(state, 'delivered')
  t.match(message.protocols.as2?.receipt, { state: 'received', signed: true, mic_matches: true })
  t.match(String(await acme.stage(message, 'receipt')), /^content-type: application\/pkcs7-mime/i)
  const forged = await send(opaque(loop.acme.keys))
  t.equal(forged.state, 'failed')
  t.match(forged.error, /the signature is not of any certificate that is known for the partner/)
})

void t.test(
  'where no signature was asked for, and there is nothing to verify one with, none counts',
  async (t) => {
    const profile = { receipt_signed: false, encryption_algorithm: 'None' }
    await acme.profile('globex', { ...profile, partner_certificate_id: null })
    const disposition = `${MODE}; processed/error: decryption-failed`
    for (const isOpaque of [false, true]) {
      const { state, error, message } = await send(receipt({ isOpaque }))
      t.equal(state, 'delivered', error)
      t.match(message.protocols.as2?.receipt, { state: 'received', signed: false, mic_matches: true })
      const lines = message.history.filter(({ kind }) => kind === 'mdn_received')
      t.match(lines, [{ text: /; processed \(read as unsigned: the profile has no certificate to verify/ }])
      t.match(await send(receipt({ isOpaque, disposition })), {
        state: 'failed',
        error: /decryption-failed$/,
      })
      t.match(await send(receipt({ isOpaque, originalId: '<other@acme>' })), { error: /for another message/ })
    }
    await acme.profile('globex', { partner_certificate_id: loop.globex.certificate })
    t.match(await send(receipt({ signer: loop.acme.keys })), {
      state: 'failed',
      error: /not of any certificate/,
    })
    await acme.profile('globex', AS_BEFORE)
  },
)

void t.test('a negative receipt is heard also where none was asked for', async (t) => {
  await acme.profile('globex', { receipt_mode: 'None' })
  const disposition = `${MODE}; processed/error: decryption-failed`
  for (const wishes of [{}, { signer: null }, { status: 400 }]) {
    const { state, error, message } = await send(receipt({ ...wishes, disposition, mic: () => null }))
    t.equal(state, 'failed')
    t.equal(error, 'The partner refused the message: ' + disposition)
    t.match(message.protocols.as2?.receipt, { mode: 'Sync', state: 'refused' })
    t.match(String(await acme.stage(message, 'receipt')), /decryption-failed/, 'it is kept')
  }
  const others = [{ signer: loop.acme.keys }, { originalId: '<other@acme>' }]
  for (const wishes of others) {
    const { state, message } = await send(receipt({ ...wishes, disposition }))
    t.equal(state, 'delivered', 'one of somebody else is not')
    t.equal(message.protocols.as2?.receipt, null)
  }
  const { state, message } = await send(receipt())
  t.equal(state, 'delivered')
  t.equal(message.protocols.as2?.receipt, null, 'a positive one says what the status says')
  await acme.profile('globex', { receipt_mode: 'Sync' })
})
