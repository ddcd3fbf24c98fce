import fc from 'fast-check'
import t from 'tap'
import {
  algorithmIdentifier,
  integer,
  octetString,
  sequence,
  toBuffer,
} from '../../../actors/as2/protocol/asn1/writer.ts'
import { WaybillError } from '../../../runtime/errors.ts'
import { parseUpload, type FoundMaterial } from '../../../storage/certificates/parse.ts'
import { makeCertificate } from '../../support/certificates.ts'
import { makePkcs12 } from '../../support/pkcs12.ts'

const made = makeCertificate({ commonName: 'parsed' })
const ec = makeCertificate({ commonName: 'curve', keyType: 'ec' })

function parse(
  certificate: Uint8Array | string,
  password = '',
  privateKey?: Uint8Array | string,
): FoundMaterial {
  return parseUpload({
    certificate: Buffer.from(certificate as string),
    privateKey: privateKey === undefined ? undefined : Buffer.from(privateKey as string),
    password,
  })
}

const pkcs8 = made.privateKey.export({ format: 'der', type: 'pkcs8' })
const holdsPair = (found: FoundMaterial): boolean =>
  found.certificates.length === 1 &&
  found.certificates[0]?.keyIndex === 0 &&
  found.certificates[0].der.equals(made.certificate) &&
  found.keys[0]?.pkcs8.equals(pkcs8) === true

t.test('a certificate and its key are found in every format', async (t) => {
  const key = (type: 'pkcs1' | 'pkcs8', format: 'pem' | 'der') =>
    made.privateKey.export({ format, type } as { format: 'der'; type: 'pkcs1' })
  t.ok(holdsPair(parse(made.certificatePem + made.privateKeyPem)), 'PEM with both')
  t.ok(
    holdsPair(
      parse(`text before\r\n${made.certificatePem.replaceAll('\n', '\r\n')}`, '', key('pkcs1', 'pem')),
    ),
    'CRLF and PKCS#1',
  )
  t.ok(holdsPair(parse(made.certificate, '', key('pkcs8', 'der'))), 'DER and PKCS#8')
  t.ok(holdsPair(parse(made.certificate, '', key('pkcs1', 'der'))), 'DER and PKCS#1')
  t.ok(
    holdsPair(parse(Buffer.concat([made.certificate, Buffer.from('\n')]), '', pkcs8)),
    'a line end after the DER',
  )
  for (const algorithm of ['aes128', 'aes256', '3des'] as const) {
    t.ok(holdsPair(parse(makePkcs12(made, 'geheim', algorithm), 'geheim')), `PKCS#12 with ${algorithm}`)
  }
  for (const cipher of ['aes-128-cbc', 'aes-256-cbc', 'des-ede3-cbc']) {
    const der = made.privateKey.export({ format: 'der', type: 'pkcs8', cipher, passphrase: 'geheim' })
    t.ok(holdsPair(parse(made.certificate, 'geheim', der)), `encrypted PKCS#8 with ${cipher}`)
    const old = made.privateKey.export({ format: 'pem', type: 'pkcs1', cipher, passphrase: 'geheim' })
    t.ok(holdsPair(parse(made.certificatePem, 'geheim', old)), `encrypted PKCS#1 with ${cipher}`)
  }
  const sec1 = ec.privateKey.export({ format: 'pem', type: 'sec1' })
  t.match(parse(ec.certificatePem, '', sec1), {
    certificates: [{ keyIndex: 0 }],
    keys: [{ algorithm: 'EC', size: 256 }],
  })
})

t.test('a certificate or key that occurs twice counts once', async (t) => {
  t.ok(holdsPair(parse(made.certificatePem.repeat(3) + made.privateKeyPem.repeat(2), '', made.privateKeyPem)))
})

t.test('a file that asks for endless key derivation is refused at once', async (t) => {
  const endless = integer(Buffer.from([0x7f, 0xff, 0xff, 0xff]))
  const derivation = algorithmIdentifier(
    '1.2.840.113549.1.5.12',
    sequence(octetString(Buffer.alloc(8)), endless),
  )
  const cipher = algorithmIdentifier('2.16.840.1.101.3.4.1.42', octetString(Buffer.alloc(16)))
  const scheme = algorithmIdentifier('1.2.840.113549.1.5.13', sequence(derivation, cipher))
  const key = toBuffer(sequence(scheme, octetString(Buffer.alloc(32))))
  t.match(
    refusalOf(() => parse(made.certificate, 'x', key)),
    { private_key: /too many iterations/ },
  )
  const costly = sequence(octetString(Buffer.alloc(8)), endless, integer(8), integer(1))
  const memory = algorithmIdentifier('1.3.6.1.4.1.11591.4.11', costly)
  const other = algorithmIdentifier('1.2.840.113549.1.5.13', sequence(memory, cipher))
  const hungry = toBuffer(sequence(other, octetString(Buffer.alloc(32))))
  t.match(
    refusalOf(() => parse(made.certificate, 'x', hungry)),
    { private_key: /too many iterations/ },
  )
})

t.test('whatever bytes come, the answer is material or a validation failure', async () => {
  const sound = Buffer.from(makePkcs12(made, 'x'))
  const accepts = (bytes: Uint8Array): boolean => {
    try {
      parse(bytes, 'x', undefined)
      return true
    } catch (thrown) {
      if (thrown instanceof WaybillError && thrown.code === 'INVALID_INPUT') return true
      throw thrown
    }
  }
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), accepts))
  const changes = fc.array(fc.tuple(fc.nat({ max: sound.length - 1 }), fc.nat({ max: 255 })), {
    minLength: 1,
    maxLength: 4,
  })
  for (const original of [sound, made.certificate, pkcs8, Buffer.from(made.certificatePem)]) {
    fc.assert(
      fc.property(changes, (list) => {
        const bytes = Buffer.from(original)
        for (const [at, octet] of list) bytes[at % bytes.length] = octet
        return accepts(bytes)
      }),
      { numRuns: 60 },
    )
  }
})

function refusalOf(action: () => unknown): object {
  try {
    action()
  } catch (thrown) {
    if (thrown instanceof WaybillError) return thrown.details ?? {}
  }
  return {}
}
