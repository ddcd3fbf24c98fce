/** What OpenAS2 knows of one pair of AS2 ids: the typed form of an entry in its partnerships.xml. */

export type OpenAs2Digest = 'md5' | 'sha1' | 'sha224' | 'sha256' | 'sha384' | 'sha512'
export type OpenAs2Cipher = '3des' | 'rc2' | 'cast5' | 'idea' | 'aes128' | 'aes192' | 'aes256' | 'aes256_wrap'

export interface OpenAs2Partnership {
  /** Unique; letters, digits and hyphens: its folders bear it. */
  readonly name: string
  /** AS2 id of OpenAS2. The two ids of a pair are unique together. */
  readonly as2Id: string
  /** AS2 id of its partner. */
  readonly partnerAs2Id: string
  /** Where OpenAS2 sends to; null for itself: then it is the partner, too, whose files arrive in `<name>-partner`. */
  readonly partnerUrl: string | null
  /** The partner's certificate by its name in `OpenAs2Options.certificates`, or `own`: encrypts to it and verifies it. */
  readonly partnerCertificate: string
  /** How OpenAS2 sends; what it takes does not depend on it. Null for none. */
  readonly signature: OpenAs2Digest | null
  readonly encryption: OpenAs2Cipher | null
  readonly compression: 'BeforeSigning' | 'AfterSigning' | null
  readonly receipt: OpenAs2ReceiptWish | null
  /** `binary`, `8bit`, `base64` …; default `binary`. */
  readonly encoding?: string
  /** Media type of the content; default `application/EDI-X12`. */
  readonly contentType?: string
  /** How many folders of files are sent at once, each one file after the other; default 1. */
  readonly outboxes?: number
  /** How often a message is sent again when its receipt does not say that all is well; default 0. */
  readonly resends?: number
  /** More attributes of the partnership, by OpenAS2's own names. They win over what the others say. */
  readonly attributes?: Readonly<Record<string, string>>
}

export interface OpenAs2ReceiptWish {
  readonly signed: boolean
  /** In a request of its own, to OpenAS2's second port. */
  readonly asynchronous: boolean
  /** The digest asked for; default that of the signature, else sha256. OpenAS2 holds the MIC against this one. */
  readonly digest?: OpenAs2Digest
  /** Any text in place of the usual Disposition-Notification-Options. */
  readonly options?: string
}

/** Its key in the key store. */
export const OWN_ALIAS = 'own'

/** Names of the two parties in OpenAS2's files: folders are made of them. */
export const ownName = ({ name }: OpenAs2Partnership): string => name
const partnerName = ({ name }: OpenAs2Partnership): string => `${name}-partner`

export interface OpenAs2Urls {
  readonly messages: string
  /** Of asynchronous receipts. */
  readonly receipts: string
}

/** The file partnerships.xml: each pair in both directions. */
export function formatPartnerships(partnerships: readonly OpenAs2Partnership[], own: OpenAs2Urls): string {
  const parts = partnerships.flatMap((each) => [
    element('partner', party(ownName(each), each.as2Id, OWN_ALIAS)),
    element('partner', party(partnerName(each), each.partnerAs2Id, each.partnerCertificate)),
    formatDirection(`${each.name}-out`, ownName(each), partnerName(each), outbound(each, own)),
    formatDirection(`${each.name}-in`, partnerName(each), ownName(each), inbound(each, own)),
  ])
  return `<partnerships>\n${parts.join('\n')}\n</partnerships>\n`
}

function party(name: string, as2Id: string, alias: string): Record<string, string> {
  return { name, as2_id: as2Id, x509_alias: alias, email: `as2@${name}.example` }
}

function formatDirection(
  name: string,
  sender: string,
  receiver: string,
  attributes: Readonly<Record<string, string>>,
): string {
  const list = Object.entries(attributes).map(([key, value]) => element('attribute', { name: key, value }))
  const parties = [element('sender', { name: sender }), element('receiver', { name: receiver })]
  return `<partnership name="${escape(name)}">\n${[...parties, ...list].join('\n')}\n</partnership>`
}

function outbound(each: OpenAs2Partnership, own: OpenAs2Urls): Record<string, string> {
  const { signature, encryption, compression, receipt } = each
  return {
    ...common(each),
    subject: 'File $attributes.filename$',
    as2_url: each.partnerUrl ?? own.messages,
    resend_max_retries: String(each.resends ?? 0),
    ...(each.contentType === undefined ? {} : { content_type: each.contentType }),
    ...(signature === null ? {} : { sign: signature.toUpperCase() }),
    ...(encryption === null ? {} : { encrypt: encryption.toUpperCase() }),
    ...(compression === null ? {} : { compression_type: 'ZLIB' }),
    ...(compression === 'AfterSigning' ? { compression_mode: 'compress-after-signing' } : {}),
    // It cannot do without this one; "none" asks for an unsigned receipt.
    as2_mdn_options: receiptOptions(each),
    ...(receipt === null ? {} : { as2_mdn_to: 'receipts@openas2.example' }),
    ...(receipt?.asynchronous === true ? { as2_receipt_option: own.receipts } : {}),
    ...each.attributes,
  }
}

function receiptOptions({ signature, receipt }: OpenAs2Partnership): string {
  if (receipt?.options !== undefined) return receipt.options
  if (receipt?.signed !== true) return 'none'
  const digest = (receipt.digest ?? signature ?? 'sha256').toUpperCase()
  return `signed-receipt-protocol=optional, pkcs7-signature; signed-receipt-micalg=optional, ${digest}`
}

/** Receipts that it makes are written after this one. */
function inbound(each: OpenAs2Partnership, own: OpenAs2Urls): Record<string, string> {
  return {
    ...common(each),
    as2_url: each.partnerUrl ?? own.messages,
    as2_mdn_options: 'none',
    ...each.attributes,
  }
}

function common({ encoding = 'binary' }: OpenAs2Partnership): Record<string, string> {
  return { protocol: 'as2', content_transfer_encoding: encoding }
}

/** One XML element without content. */
export function element(name: string, attributes: Readonly<Record<string, string>>): string {
  const list = Object.entries(attributes).map(([key, value]) => ` ${key}="${escape(value)}"`)
  return `<${name}${list.join('')}/>`
}

/** For the value of an XML attribute. */
function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
