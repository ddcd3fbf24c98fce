/** Names of algorithms that are met in the field and not taken, so that the operator reads a name and no number. */
const NAMES: Readonly<Record<string, string>> = {
  '1.2.840.113549.3.2': 'RC2',
  '1.2.840.113549.3.4': 'RC4',
  '1.2.840.113549.3.9': 'RC5',
  '1.3.14.3.2.7': 'DES',
  '1.2.840.113533.7.66.10': 'CAST-128',
  '1.3.6.1.4.1.188.7.1.1.2': 'IDEA',
  '1.2.410.200004.1.4': 'SEED',
  '1.2.392.200011.61.1.1.1.2': 'Camellia-128',
  '1.2.392.200011.61.1.1.1.3': 'Camellia-192',
  '1.2.392.200011.61.1.1.1.4': 'Camellia-256',
  '2.16.840.1.101.3.4.1.7': 'AES-128-CCM',
  '2.16.840.1.101.3.4.1.27': 'AES-192-CCM',
  '2.16.840.1.101.3.4.1.47': 'AES-256-CCM',
  '1.2.840.113549.1.9.16.3.18': 'ChaCha20-Poly1305',
  '1.2.840.113549.1.9.16.3.7': 'the RC2 key wrap',
  '1.2.840.113549.1.9.16.3.5': 'Diffie-Hellman without elliptic curves',
  '1.3.133.16.840.63.0.16': 'MQV',
  '1.3.132.1.15.0': 'MQV',
  '1.3.132.1.15.1': 'MQV',
  '1.3.132.1.15.2': 'MQV',
  '1.3.132.1.15.3': 'MQV',
  '1.2.840.113549.2.2': 'MD2',
  '1.2.840.113549.2.4': 'MD4',
  '1.2.840.113549.2.5': 'MD5',
  '1.3.36.3.2.1': 'RIPEMD-160',
  '2.16.840.1.101.3.4.2.4': 'SHA-224',
  '2.16.840.1.101.3.4.2.7': 'SHA3-224',
  '2.16.840.1.101.3.4.2.8': 'SHA3-256',
  '2.16.840.1.101.3.4.2.9': 'SHA3-384',
  '2.16.840.1.101.3.4.2.10': 'SHA3-512',
  '1.2.840.113549.1.1.2': 'RSA with MD2',
  '1.2.840.113549.1.1.4': 'RSA with MD5',
  '1.2.840.113549.1.1.14': 'RSA with SHA-224',
  '1.2.840.10045.4.3.1': 'ECDSA with SHA-224',
  '1.2.840.10040.4.1': 'DSA',
  '1.2.840.10040.4.3': 'DSA with SHA-1',
  '2.16.840.1.101.3.4.3.2': 'DSA with SHA-256',
  '1.3.101.112': 'Ed25519',
  '1.3.101.113': 'Ed448',
}

/** The name of an algorithm with its object identifier, or this alone. */
export function algorithmName(oid: string): string {
  const name = NAMES[oid]
  return name === undefined ? oid : `${name} (${oid})`
}
