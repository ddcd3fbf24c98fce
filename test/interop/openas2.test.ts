import { randomBytes } from 'node:crypto'
import t from 'tap'
import type { Combination } from './openas2/combinations.ts'
import type { Case } from './openas2/exchange.ts'
import type { OpenAs2Partnership } from './openas2/partnership.ts'
import { exchangeRows, type Row } from './openas2/rows.ts'

/** A real OpenAS2 and the service exchange files in both directions, with everything that OpenAS2 offers. */

const secure = { signature: 'sha256', encryption: 'aes256', receipt: 'signed' } as const

const row = (name: string, what: string, combination: Combination, rest: Partial<Row> = {}): Row => ({
  name,
  what,
  combination,
  ...rest,
})

const signed = { signature: 'sha256', receipt: 'signed' } as const
const text = Buffer.from("UNB+UNOC:3+OPENAS2+WAYBILL'\r\nÄÖÜ = 100 %\r\n\r\n".repeat(20))
const bareText = Buffer.from("UNB+UNOC:3+OPENAS2+WAYBILL'\nÄÖÜ = 100 %\n\n".repeat(20))

/** How OpenAS2 sends otherwise than by the combination. */
const theirs = (partnership: Partial<OpenAs2Partnership>): Partial<Case> => ({ partnership })

/** A row of one direction, named by its sentence. */
function dialect(
  only: 'sent' | 'received',
  what: string,
  combination: Combination,
  more: Partial<Case>,
  content?: Buffer<ArrayBuffer>,
): Row {
  const name = `${only}-${what.toLowerCase().replaceAll(/[^a-z\d]+/g, '-')}`.slice(0, 60)
  return row(name, what, combination, { only, more, ...(content === undefined ? {} : { content }) })
}

/** It neither reads nor writes more than the word «attachment» in the Content-Disposition of the HTTP request. */
const nameless = { namelessBecause: 'OpenAS2 looks for it in S/MIME alone' }

/** What each side can be told to do otherwise. */
const DIALECTS: readonly Row[] = [
  dialect('sent', 'signed with PSS', signed, { profile: { signature_scheme: 'PSS' } }),
  dialect('sent', 'as AS2 1.1', secure, { profile: { as2_version: '1.1' } }),
  dialect('sent', 'with digests spelt as in RFC 3851', secure, { profile: { micalg_format: 'sha256' } }),
  dialect('sent', 'with a Content-Length', secure, { profile: { chunked_transfer: false } }),
  dialect('sent', 'in base64', signed, { profile: { content_transfer_encoding: 'base64' } }),
  dialect(
    'received',
    'in base64',
    { ...secure, compression: 'BeforeSigning' },
    theirs({ encoding: 'base64' }),
  ),
  dialect('received', 'in quoted-printable', secure, theirs({ encoding: 'quoted-printable' }), text),
  dialect('received', 'as text of 8 bits', secure, theirs({ encoding: '8bit' }), text),
  dialect('received', 'bare line feeds, signed as CRLF', secure, theirs({ encoding: '8bit' }), bareText),
  dialect(
    'received',
    'bare line feeds, compressed, then signed',
    { ...signed, compression: 'BeforeSigning' },
    theirs({ encoding: '8bit' }),
    bareText,
  ),
  dialect(
    'received',
    'bare line feeds, signed as CRLF, then compressed',
    { ...signed, compression: 'AfterSigning' },
    theirs({ encoding: '8bit' }),
    bareText,
  ),
  dialect(
    'received',
    'bare line feeds, encrypted, with prevent_canonicalization_for_mic',
    { encryption: 'aes256', receipt: 'signed' },
    theirs({ encoding: '8bit', attributes: { prevent_canonicalization_for_mic: 'true' } }),
    bareText,
  ),
  dialect(
    'received',
    'with rename_digest_to_old_name',
    secure,
    theirs({ attributes: { rename_digest_to_old_name: 'true' } }),
  ),
  dialect(
    'received',
    'with remove_cms_algorithm_protection_attrib',
    secure,
    theirs({ attributes: { remove_cms_algorithm_protection_attrib: 'true' } }),
  ),
  dialect(
    'received',
    'with a Content-Length',
    secure,
    theirs({ attributes: { no_chunked_max_size: '1000000' } }),
  ),
  dialect(
    'received',
    'of a content type with a parameter',
    secure,
    theirs({ contentType: 'text/plain; charset=utf-8' }),
    text,
  ),
  dialect(
    'received',
    'and demands a signed receipt',
    signed,
    theirs({
      receipt: {
        signed: true,
        asynchronous: false,
        options: 'signed-receipt-protocol=required, pkcs7-signature; signed-receipt-micalg=required, sha256',
      },
    }),
  ),
]

const ROWS: readonly Row[] = [
  ...(['sha1', 'sha256', 'sha384', 'sha512'] as const).map((signature) =>
    row(`signed-${signature}`, `signed with ${signature}`, { signature, receipt: 'signed' }),
  ),
  ...(['3des', 'aes128', 'aes192', 'aes256'] as const).map((encryption) =>
    row(`encrypted-${encryption}`, `signed, then encrypted with ${encryption}`, { ...secure, encryption }),
  ),
  row('clear', 'in clear, with a signed receipt', { receipt: 'signed' }, nameless),
  row('only-encrypted', 'encrypted, not signed', { encryption: 'aes256', receipt: 'signed' }),
  row(
    'only-compressed',
    'compressed alone',
    { compression: 'BeforeSigning', receipt: 'signed' },
    { only: 'sent' },
  ),
  row('encrypted-compressed', 'compressed and encrypted, not signed', {
    encryption: 'aes128',
    compression: 'BeforeSigning',
    receipt: 'signed',
  }),
  row('compressed-signed', 'compressed, then signed', {
    signature: 'sha256',
    compression: 'BeforeSigning',
    receipt: 'signed',
  }),
  row('signed-compressed', 'signed, then compressed', {
    signature: 'sha256',
    compression: 'AfterSigning',
    receipt: 'signed',
  }),
  row('compressed-signed-encrypted', 'compressed, signed and encrypted', {
    ...secure,
    compression: 'BeforeSigning',
  }),
  row('signed-compressed-encrypted', 'signed, compressed and encrypted', {
    ...secure,
    compression: 'AfterSigning',
  }),
  row('unsigned-receipt', 'signed and encrypted, with an unsigned receipt', {
    ...secure,
    receipt: 'unsigned',
  }),
  row('clear-unsigned-receipt', 'in clear, with an unsigned receipt', { receipt: 'unsigned' }, nameless),
  row('no-receipt', 'signed and encrypted, without a receipt', {
    signature: 'sha256',
    encryption: 'aes256',
  }),
  row('asynchronous-receipt', 'signed and encrypted, with a signed receipt later', {
    ...secure,
    receipt: 'signed, asynchronous',
  }),
  row('asynchronous-compressed', 'compressed, signed and encrypted, with a signed receipt later', {
    ...secure,
    compression: 'BeforeSigning',
    receipt: 'signed, asynchronous',
  }),
  row('asynchronous-encrypted', 'encrypted, not signed, with a signed receipt later', {
    encryption: 'aes256',
    receipt: 'signed, asynchronous',
  }),
  row('asynchronous-unsigned', 'signed and encrypted, with an unsigned receipt later', {
    ...secure,
    receipt: 'unsigned, asynchronous',
  }),
  row(
    'asynchronous-spaces',
    'between AS2 names with spaces, with a signed receipt later',
    { ...secure, receipt: 'signed, asynchronous' },
    {
      more: { as2Id: 'Open AS2 Later', ourAs2Id: 'Waybill of Acme' },
    },
  ),
  row('names-with-spaces', 'between AS2 names with spaces', secure, {
    more: { as2Id: 'Open AS2 Server', ourAs2Id: 'Waybill of Acme' },
    only: 'sent',
  }),
  row('odd-names', 'between AS2 names with odd characters', secure, {
    more: { as2Id: "O#A[2]!;:'{}~", ourAs2Id: 'us@<acme>.example(edi)+*' },
  }),
  row('spaces-in-file-name', 'as a file whose name has spaces', secure, {
    fileName: 'two  words, (and) more.edi',
  }),
  row('umlauts-in-file-name', 'as a file whose name is not ASCII', secure, {
    fileName: 'Größe façade № 日本語.edi',
  }),
  row('chunked', 'as 3 MB in chunks', secure, { content: randomBytes(3 * 1024 * 1024) }),
  row('no-ending', 'as a file whose name has no ending', secure, { fileName: 'ORDERS' }),
  ...DIALECTS,
]

void t.test('OpenAS2 and the service exchange files', async (t) => {
  await exchangeRows(t, ROWS)
})
