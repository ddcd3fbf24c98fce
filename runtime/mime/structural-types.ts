/** By these types a reader tells the layers of S/MIME and receipts (RFC 8551, RFC 8098): content of one would be taken for that. */
const STRUCTURAL_TYPES: ReadonlySet<string> = new Set([
  'multipart/signed',
  'multipart/report',
  'application/pkcs7-mime',
  'application/x-pkcs7-mime',
  'message/disposition-notification',
])

/** Whether content of a media type, in lower case and without parameters, would be taken for something else. */
export function isStructuralType(type: string): boolean {
  return STRUCTURAL_TYPES.has(type)
}
