import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { setUpLoop, startLoop } from '../../../support/as2-loop.ts'
import { allMessages, untilDelivered } from '../../../support/exchanged-messages.ts'
import { dropFile } from '../../../support/file-set.ts'
import { temporaryDirectory } from '../../../support/processes.ts'
import { Waybill } from '../../../support/waybill.ts'

t.setTimeout(300_000)

const directory = await temporaryDirectory(t)
const waybill = await Waybill.start({ directory })
t.teardown(async () => waybill.stop())
const loop = await setUpLoop(waybill, { directory, keys: { keyType: 'ec', curve: 'P-384' } })
const CONTENT = "UNB+UNOC:3+ACME:14+GLOBEX:14+261121:1030+1'"

t.test('Companies whose certificates have keys on a curve exchange messages and receipts', async (t) => {
  await startLoop(waybill)
  // Each file makes a message at the sender, and one at the receiver.
  let expected = 0
  for (const encryption of ['AES256-CBC', 'AES128-GCM', '3DES']) {
    await waybill.request('PUT', `/as2/remote-profiles/${loop.globex.partner}`, {
      encryption_algorithm: encryption,
    })
    const name = `${encryption}.edi`
    await dropFile(loop.outbox, name, CONTENT)
    expected += 2
    await untilDelivered(waybill, expected)
    t.equal(await readFile(join(loop.inbox, name), 'utf8'), CONTENT, encryption)
    const messages = (await allMessages(waybill)).filter(({ file_name }) => file_name === name)
    t.equal(messages.length, 2, 'one sent, one received')
    for (const { direction, protocols } of messages) {
      t.match(protocols.as2, {
        signed: true,
        encrypted: true,
        algorithms: { signature: 'SHA256', encryption },
        // Who sends compares; who receives has nothing to compare with.
        receipt: { signed: true, mic_matches: direction === 'outbound' ? true : null },
      })
    }
  }
})
