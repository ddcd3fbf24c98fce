import type { Clock } from '../../../runtime/clock.ts'
import type { Endpoint } from '../../../runtime/endpoint/endpoint.ts'
import type { Certificates } from '../../../storage/certificates/certificates.ts'
import type { CertificateImports } from '../../../storage/certificates/imports.ts'
import type { UploadReader } from '../../../storage/certificates/reading/upload-reader.ts'
import { importEndpoint } from './import.ts'
import { certificateLists } from './lists.ts'
import { oneCertificate } from './one.ts'
import { uploadEndpoint } from './upload.ts'

/** What `/certificates` needs. */
export interface CertificateServices {
  readonly certificates: Certificates
  readonly certificateImports: CertificateImports
  readonly uploadReader: UploadReader
  readonly clock: Clock
}

export function certificateEndpoints(services: CertificateServices): readonly Endpoint[] {
  return [
    ...certificateLists(services),
    uploadEndpoint(services),
    importEndpoint(services),
    ...oneCertificate(services),
  ]
}
