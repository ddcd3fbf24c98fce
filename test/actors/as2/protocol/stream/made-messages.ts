/** Messages for the two readers: every order of layers, whole and broken, in DER and in BER of small pieces. */
import fc from 'fast-check'
import { BerReader } from '../../../../../actors/as2/protocol/asn1/reader.ts'
import type { BerElement } from '../../../../../actors/as2/protocol/asn1/reader.ts'
import { octetString, toBuffer } from '../../../../../actors/as2/protocol/asn1/writer.ts'
import { CIPHERS } from '../../../../../actors/as2/protocol/algorithms.ts'
import type { CipherName } from '../../../../../actors/as2/protocol/algorithms.ts'
import { formatCompressedData } from '../../../../../actors/as2/protocol/cms/compressed-data.ts'
import { formatEnvelopedData } from '../../../../../actors/as2/protocol/cms/enveloped-data.ts'
import type { HeaderList } from '../../../../../runtime/mime/headers.ts'
import { formatEntity } from '../../../../../actors/as2/protocol/mime.ts'
import { formatMultipartSigned } from '../../../../../actors/as2/protocol/multipart-signed.ts'
import type { ReceivedMessage } from '../../../../../actors/as2/protocol/incoming.ts'
import { makeCertificate } from '../../../../support/certificates.ts'
import { attributesOf, signedData, signerInfo } from '../crafted-cms.ts'

const sender = makeCertificate({ commonName: 'Sender' })
const stranger = makeCertificate({ commonName: 'Stranger' })
const receiver = makeCertificate({ commonName: 'Receiver' })

const ENVELOPE: HeaderList = [
  ['AS2-From', 'sender'],
  ['AS2-To', 'receiver'],
  ['Message-ID', '<1@sender>'],
]
const SIGNED_AT = new Date('2026-11-21T08:00:00Z')
const SMIME = 'application/pkcs7-mime'

/** What is put around an entity, from the inside to the outside. */
export type Layer =
  | { readonly kind: 'compressed' | 'opaque' }
  | {
      readonly kind: 'detached'
      readonly micalg: string | null
      readonly by: 'sender' | 'stranger'
      readonly pss: boolean
    }
  | { readonly kind: 'encrypted'; readonly algorithm: CipherName; readonly oaep: boolean }

/** How the bytes of a layer are written. */
export interface Form {
  /** Bytes of each piece of BER; null for DER. */
  readonly pieceBytes: number | null
  readonly nested: boolean
  readonly encoding: 'binary' | 'base64' | 'undeclared base64' | 'quoted-printable'
  readonly damage: Damage | null
}

/** Where is in thousandths of the length. */
export type Damage =
  | { readonly kind: 'flip'; readonly where: number; readonly mask: number }
  | { readonly kind: 'cut'; readonly where: number }
  | { readonly kind: 'insert'; readonly where: number; readonly bytes: Uint8Array }
  | { readonly kind: 'lone line feeds' }
  | { readonly kind: 'trailing line feed' }

export interface Recipe {
  readonly content: Uint8Array
  readonly contentHeaders: HeaderList
  readonly layers: readonly (readonly [Layer, Form])[]
  readonly request: HeaderList
  readonly maxContentBytes: number
  readonly require: { readonly signed: boolean; readonly encrypted: boolean }
}

interface Made {
  readonly headers: HeaderList
  readonly body: Buffer
}

/** The message that a recipe makes, as it comes in. */
export async function make(recipe: Recipe): Promise<ReceivedMessage> {
  let made: Made = { headers: recipe.contentHeaders, body: Buffer.from(recipe.content) }
  for (const [layer, form] of recipe.layers)
    made = finish(await wrap(formatEntity(made.headers, made.body), layer, form), form)
  return {
    headers: [...ENVELOPE, ...recipe.request, ...made.headers],
    body: made.body,
    decryption: [receiver],
    signers: [sender.certificate],
    maxContentBytes: recipe.maxContentBytes,
    require: recipe.require,
  }
}

async function wrap(entity: Buffer, layer: Layer, form: Form): Promise<Made> {
  switch (layer.kind) {
    case 'compressed':
      return smime(await formatCompressedData(entity), form)
    case 'opaque':
      return smime(signedData(entity, signerInfo(sender, attributesOf(entity))), form)
    case 'encrypted': {
      const { algorithm, oaep } = layer
      const encryption = {
        algorithm,
        keyTransport: oaep ? 'OAEP' : 'PKCS1',
        certificate: receiver.certificate,
      } as const
      return smime(formatEnvelopedData(entity, encryption).bytes, form)
    }
    case 'detached': {
      const { certificate, privateKey } = layer.by === 'sender' ? sender : stranger
      const signing = {
        algorithm: 'SHA256',
        scheme: layer.pss ? 'PSS' : 'PKCS1',
        certificate,
        privateKey,
      } as const
      const { headers, body } = await formatMultipartSigned(entity, { signing, signingTime: SIGNED_AT })
      const micalg = layer.micalg === null ? '' : ` micalg=${layer.micalg};`
      return {
        headers: headers.map(([name, value]) => [name, value.replace(/ micalg=[^;]*;/, micalg)]),
        body,
      }
    }
  }
}

function smime(der: Buffer, { pieceBytes, nested, encoding }: Form): Made {
  const cms =
    pieceBytes === null ? der : inPieces(new BerReader(der).next(), { pieceBytes, nested, depth: 0 })
  const isDeclared = encoding === 'base64' || encoding === 'quoted-printable'
  const declared: HeaderList = isDeclared ? [['Content-Transfer-Encoding', encoding]] : []
  return { headers: [['Content-Type', SMIME], ...declared], body: encoded(cms, encoding) }
}

function encoded(cms: Buffer, encoding: Form['encoding']): Buffer {
  if (encoding === 'binary') return cms
  if (encoding === 'quoted-printable') return quotedPrintable(cms)
  return Buffer.from(cms.toString('base64').replace(/.{1,76}/g, '$&\r\n'))
}

/** In lines of 76 characters at most (RFC 2045 §6.7). */
export function quotedPrintable(bytes: Buffer): Buffer {
  const characters = [...bytes].map((octet) =>
    octet > 0x20 && octet < 0x7f && octet !== 0x3d
      ? String.fromCharCode(octet)
      : `=${octet.toString(16).toUpperCase().padStart(2, '0')}`,
  )
  return Buffer.from(characters.join('').replace(/((?:=..|[^=]){25})(?!$)/g, '$1=\r\n'))
}

/** The outer elements with indefinite lengths, and long octet strings in pieces. */
function inPieces(
  element: BerElement,
  how: { readonly pieceBytes: number; readonly nested: boolean; readonly depth: number },
): Buffer {
  const { tag } = element
  // What stands in a SET is small: recipients and signers.
  if (how.depth > 5 || tag === 0x31) return element.raw
  if ((tag & 0x20) !== 0 && how.depth < 5) {
    const inner = [...element.children()].map((child) => inPieces(child, { ...how, depth: how.depth + 1 }))
    return indefinite(tag, inner)
  }
  const isContent = tag === 0x04 || tag === 0x80
  if (!isContent || element.contents.length < 20) return element.raw
  const pieces: Buffer[] = []
  const { contents } = element
  for (let at = 0; at < contents.length; at += how.pieceBytes) {
    const piece = toBuffer(octetString(contents.subarray(at, at + how.pieceBytes)))
    pieces.push(
      how.nested && pieces.length % 3 === 1
        ? indefinite(0x24, [piece, toBuffer(octetString(Buffer.alloc(0)))])
        : piece,
    )
  }
  return indefinite(tag | 0x20, pieces)
}

function indefinite(tag: number, inner: readonly Buffer[]): Buffer {
  return Buffer.concat([Buffer.from([tag, 0x80]), ...inner, Buffer.from([0, 0])])
}

function finish({ headers, body }: Made, { damage }: Form): Made {
  if (damage === null) return { headers, body }
  if (damage.kind === 'lone line feeds') {
    return { headers, body: Buffer.from(body.toString('latin1').replaceAll('\r\n', '\n'), 'latin1') }
  }
  if (damage.kind === 'trailing line feed') return { headers, body: Buffer.concat([body, Buffer.from('\n')]) }
  const at = Math.floor((damage.where * (body.length - 1)) / 1_000)
  if (damage.kind === 'cut') return { headers, body: body.subarray(0, at) }
  if (damage.kind === 'insert') {
    return { headers, body: Buffer.concat([body.subarray(0, at), damage.bytes, body.subarray(at)]) }
  }
  const flipped = Buffer.from(body)
  flipped[at] = (flipped[at] ?? 0) ^ damage.mask
  return { headers, body: flipped }
}

const where = fc.integer({ min: 0, max: 1_000 })
/** Small places more often: there the structures are. */
const early = fc.oneof(where, fc.integer({ min: 0, max: 60 }))

const damage: fc.Arbitrary<Damage> = fc.oneof(
  fc.record({ kind: fc.constant('flip' as const), where: early, mask: fc.integer({ min: 1, max: 255 }) }),
  fc.record({ kind: fc.constant('cut' as const), where }),
  fc.record({
    kind: fc.constant('insert' as const),
    where: early,
    bytes: fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.constant(Buffer.from('\r\n\r\n'))),
  }),
  fc.constantFrom({ kind: 'lone line feeds' as const }, { kind: 'trailing line feed' as const }),
)

const layer: fc.Arbitrary<Layer> = fc.oneof(
  fc.constantFrom({ kind: 'compressed' as const }, { kind: 'opaque' as const }),
  fc.record({
    kind: fc.constant('detached' as const),
    micalg: fc.constantFrom('sha-256', 'sha256', 'SHA1', 'sha1, sha-256', 'md5', 'nonsense', null),
    by: fc.constantFrom('sender' as const, 'sender' as const, 'sender' as const, 'stranger' as const),
    pss: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('encrypted' as const),
    algorithm: fc.constantFrom(
      ...(Object.keys(CIPHERS) as CipherName[]).filter((name) => !name.startsWith('RC2')),
    ),
    oaep: fc.boolean(),
  }),
)

const form = (damages: fc.Arbitrary<Damage | null>): fc.Arbitrary<Form> =>
  fc.record({
    pieceBytes: fc.constantFrom(null, null, 1, 7, 1_000),
    nested: fc.boolean(),
    encoding: fc.constantFrom('binary', 'binary', 'base64', 'undeclared base64', 'quoted-printable'),
    damage: damages,
  })

const content = fc.oneof(
  fc.uint8Array({ maxLength: 3_000 }),
  fc
    .array(fc.constantFrom('UNB+UNOA', '\n', '\r\n', '=', '=3D', '--', '\r'), { maxLength: 200 })
    .map((words) => Buffer.from(words.join(''))),
)

const ENCODINGS = ['binary', 'base64', 'quoted-printable', '8bit', 'strange']

/** Messages of at most three layers. */
export const recipes = (damages: fc.Arbitrary<Damage | null>): fc.Arbitrary<Recipe> =>
  fc.record({
    content,
    contentHeaders: fc.oneof(
      fc.constantFrom<HeaderList>(
        [['Content-Type', 'application/edifact; name="a.edi"']],
        [['Content-Type', 'application/edifact']],
      ),
      fc.constantFrom(...ENCODINGS).map((encoding): HeaderList => [
        ['Content-Type', 'text/plain'],
        ['Content-Transfer-Encoding', encoding],
        ['Content-Disposition', 'attachment; filename="b.txt"'],
      ]),
    ),
    layers: fc.oneof(
      fc.array(fc.tuple(layer, form(damages)), { maxLength: 3 }),
      fc.tuple(
        fc.tuple(layer, form(damages)),
        fc.tuple(
          fc.record({
            kind: fc.constant('encrypted' as const),
            algorithm: fc.constantFrom<CipherName>('AES128-CBC', 'AES256-GCM'),
            oaep: fc.constant(false),
          }),
          form(fc.constant(null)),
        ),
      ),
    ),
    request: fc.constantFrom<HeaderList>(
      [],
      [
        ['Disposition-Notification-To', 'x'],
        ['Disposition-Notification-Options', 'signed-receipt-micalg=optional, sha-384, md5'],
      ],
      [
        ['Disposition-Notification-To', 'x'],
        ['Disposition-Notification-Options', 'signed-receipt-micalg=optional, md5, sha-512'],
        ['Content-Disposition', 'attachment; filename="c.edi"'],
      ],
    ),
    maxContentBytes: fc.constantFrom(100_000, 100_000, 1_000),
    require: fc.record({ signed: fc.boolean(), encrypted: fc.boolean() }),
  })

export const anyDamage = fc.option(damage, { freq: 2 })
export const noDamage = fc.constant(null)
