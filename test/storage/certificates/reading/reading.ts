import { WaybillError } from '../../../../runtime/errors.ts'
import type { FoundMaterial } from '../../../../storage/certificates/reading/material.ts'
import { parseUpload } from '../../../../storage/certificates/reading/parse.ts'
import type { TestCertificate } from '../../../support/certificates.ts'

/** Reads an upload as the reading thread does. */
export function parse(
  certificate: Uint8Array | string,
  others: { readonly password?: string; readonly privateKey?: Uint8Array | string } = {},
): FoundMaterial {
  const { password = '', privateKey } = others
  return parseUpload({
    certificate: bytesOf(certificate),
    privateKey: privateKey === undefined ? undefined : bytesOf(privateKey),
    password,
  })
}

function bytesOf(content: Uint8Array | string): Uint8Array {
  return typeof content === 'string' ? Buffer.from(content) : content
}

/** The details of the validation failure with which the upload is refused. */
export function refusalOf(...upload: Parameters<typeof parse>): Readonly<Record<string, unknown>> {
  try {
    parse(...upload)
  } catch (thrown) {
    if (thrown instanceof WaybillError && thrown.code === 'INVALID_INPUT') return thrown.details ?? {}
    throw thrown
  }
  throw new Error('The upload was not refused')
}

/** Whether the upload holds this certificate and its key, paired, and nothing else. */
export function holdsPair(found: FoundMaterial, made: TestCertificate): boolean {
  const [certificate, ...otherCertificates] = found.certificates
  const [key, ...otherKeys] = found.keys
  return (
    otherCertificates.length + otherKeys.length === 0 &&
    certificate?.keyIndex === 0 &&
    made.certificate.equals(certificate.der) &&
    key?.certificateIndex === 0 &&
    made.privateKey.export({ format: 'der', type: 'pkcs8' }).equals(Buffer.from(key.pkcs8))
  )
}

/** Whether the upload holds these certificates in this order, and no key. */
export function holdsCertificates(found: FoundMaterial, made: readonly TestCertificate[]): boolean {
  return (
    found.keys.length === 0 &&
    found.certificates.length === made.length &&
    made.every(({ certificate }, at) => certificate.equals(found.certificates[at]?.der ?? Buffer.alloc(0)))
  )
}
