/** What a sealed private key (PKCS#8 DER) is bound to. */
export function privateKeyContext(fingerprintSha256: string): string {
  return `certificate ${fingerprintSha256} private_key`
}

/** What the sealed material of an upload is bound to until it is imported. */
export function importContext(tokenHash: Buffer): string {
  return `certificate import ${tokenHash.toString('hex')}`
}
