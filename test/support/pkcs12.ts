import forge from 'node-forge'
import type { TestCertificate } from './certificates.ts'

/** A PKCS#12 file of an RSA certificate with its key, made by another implementation than the one that reads it. */
export function makePkcs12(
  made: TestCertificate,
  password: string,
  algorithm: 'aes128' | 'aes256' | '3des' = 'aes256',
): Uint8Array<ArrayBuffer> {
  const key = forge.pki.privateKeyFromPem(made.privateKey.export({ format: 'pem', type: 'pkcs1' }).toString())
  const certificate = forge.pki.certificateFromPem(made.certificatePem)
  const file = forge.pkcs12.toPkcs12Asn1(key, certificate, password, { algorithm, count: 100 })
  return new Uint8Array(Buffer.from(forge.asn1.toDer(file).getBytes(), 'binary'))
}
