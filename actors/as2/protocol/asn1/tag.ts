/** Identifier octets of the ASN.1 types that CMS and X.509 use (X.690 §8.1.2), the constructed bit included. */
export const TAG = {
  BOOLEAN: 0x01,
  INTEGER: 0x02,
  BIT_STRING: 0x03,
  OCTET_STRING: 0x04,
  NULL: 0x05,
  OBJECT_IDENTIFIER: 0x06,
  UTF8_STRING: 0x0c,
  UTC_TIME: 0x17,
  GENERALIZED_TIME: 0x18,
  SEQUENCE: 0x30,
  SET: 0x31,
} as const

/** The bit of an identifier octet that says the contents are elements themselves. */
export const CONSTRUCTED = 0x20

/** The identifier octet of a context-specific tag of the given number (0 to 30). */
export function contextTag(number: number, form: 'primitive' | 'constructed'): number {
  return 0x80 | (form === 'constructed' ? CONSTRUCTED : 0) | number
}
