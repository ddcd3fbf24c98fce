/** Bytes that are not the ASN.1 structure expected, or that break one of the reader's limits. */
export class Asn1Error extends Error {
  override readonly name = 'Asn1Error'
}
