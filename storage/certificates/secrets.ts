/** What a sealed private key (PKCS#8 DER) is bound to. */
export function privateKeyContext(fingerprintSha256: string): string {
  return `certificate ${fingerprintSha256} private_key`
}
