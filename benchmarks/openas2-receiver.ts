import type { As2Loop } from '../test/support/as2-loop.ts'
import { isOpenAs2Installed } from '../test/interop/openas2/installation.ts'
import { OpenAs2 } from '../test/interop/openas2/openas2.ts'
import type { PreparedMessage } from './as2-prepared.ts'
import type { Receiver } from './receivers.ts'

const NOBODY = 'http://127.0.0.1:9/'

/** A real OpenAS2 with the same names and keys, so that it takes the same bytes; null where it is not installed. */
export async function startOpenAs2(
  { loop, message }: { readonly loop: As2Loop; readonly message: PreparedMessage },
  running: AsyncDisposableStack,
): Promise<Receiver | null> {
  if (!isOpenAs2Installed()) return null
  const { acme, globex } = loop
  const server = await OpenAs2.start({
    tracking: true,
    keys: globex.keys,
    certificates: { acme: acme.keys },
    partnerships: [
      {
        name: 'load',
        as2Id: 'GLOBEX AS2',
        partnerAs2Id: 'ACME-AS2',
        partnerUrl: NOBODY,
        partnerCertificate: 'acme',
        signature: 'sha256',
        encryption: 'aes256',
        compression: null,
        receipt: { signed: true, asynchronous: false },
      },
    ],
  })
  running.defer(() => server.stop())
  return {
    name: 'openas2',
    url: server.url,
    pid: server.pid,
    message,
    signer: globex.keys.certificate,
    count: null,
  }
}
