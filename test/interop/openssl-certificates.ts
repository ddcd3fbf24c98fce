import { makeCertificate } from '../support/certificates.ts'

/** Of each kind of key that openssl and we both can use, and of somebody else. */
export const CERTIFICATES = {
  rsa2048: makeCertificate({ commonName: 'RSA 2048' }),
  rsa3072: makeCertificate({ commonName: 'RSA 3072', keyBits: 3072 }),
  p256: makeCertificate({ commonName: 'P-256', keyType: 'ec' }),
  p384: makeCertificate({ commonName: 'P-384', keyType: 'ec', curve: 'P-384' }),
  p521: makeCertificate({ commonName: 'P-521', keyType: 'ec', curve: 'P-521' }),
  secp256k1: makeCertificate({ commonName: 'secp256k1', keyType: 'ec', curve: 'secp256k1' }),
  brainpool: makeCertificate({ commonName: 'Brainpool', keyType: 'ec', curve: 'brainpoolP384r1' }),
  stranger: makeCertificate({ commonName: 'Stranger' }),
} as const

export type Name = keyof typeof CERTIFICATES

export const RSA: readonly Name[] = ['rsa2048', 'rsa3072']
export const CURVES: readonly Name[] = ['p256', 'p384', 'p521', 'secp256k1', 'brainpool']
