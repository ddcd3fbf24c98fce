import { createHash } from 'node:crypto'
import type { Test } from 'tap'
import { readReceipt } from '../../../../actors/as2/protocol/receipt.ts'
import { openLoop } from '../../../support/as2-loop.ts'
import { As2Correspondent } from '../../../support/as2-correspondent.ts'
import { exchange, type RawAnswer } from '../../../support/raw-http.ts'
import type { Waybill } from '../../../support/waybill.ts'

/** A service with a receiver that plain messages are written to, byte for byte. */
export interface RawSite {
  readonly waybill: Waybill
  readonly acme: As2Correspondent
  readonly url: string
  readonly request: (wishes?: RawWishes) => RawRequest
  readonly answered: (wishes: RawWishes) => Promise<{ id: string; answer: RawAnswer }>
  /** Checks the receipt, whose original Message-ID is that of the request. */
  readonly isTaken: (t: Test, wishes: RawWishes, originalId?: string) => Promise<RawAnswer>
}

export interface RawWishes {
  /** Lines without their ends, in place of those of the same name; null leaves a header out. */
  readonly headers?: Readonly<Record<string, string | null>>
  readonly body?: string
  readonly eol?: string
  readonly version?: string
}

export interface RawRequest {
  readonly id: string
  readonly text: string
}

export const BODY = 'UNA: plain'
/** Of a plain message it is over the body alone. */
const MIC = `${createHash('sha256').update(BODY).digest('base64')}, sha-256`

export async function startRawSite(t: Test): Promise<RawSite> {
  const { waybill, loop } = await openLoop(t)
  const acme = new As2Correspondent(waybill, loop)
  await acme.profile('acme', { require_signed: false, require_encrypted: false })
  const url = loop.receiverUrl
  let sent = 0
  const request: RawSite['request'] = (wishes = {}) => {
    sent += 1
    return requestOf(new URL(url), `<raw-${sent}@acme>`, wishes)
  }
  const answered: RawSite['answered'] = async (wishes) => {
    const { id, text } = request(wishes)
    const [answer] = await exchange(url, Buffer.from(text, 'latin1'))
    if (answer === undefined) throw new Error('There is no answer')
    return { id, answer }
  }
  const isTaken: RawSite['isTaken'] = async (test, wishes, originalId) => {
    const { id, answer } = await answered(wishes)
    test.equal(answer.status, 200)
    const { headers, body } = answer
    const receipt = await readReceipt({
      headers: [...headers],
      body: Buffer.from(body, 'latin1'),
      signers: [],
    })
    test.match(receipt, {
      disposition: { type: 'processed', modifier: null },
      originalMessageId: originalId ?? id,
    })
    test.match(body, MIC)
    return answer
  }
  return { waybill, acme, url, request, answered, isTaken }
}

function requestOf({ host, pathname }: URL, id: string, wishes: RawWishes): RawRequest {
  const { headers = {}, body = BODY, eol = '\r\n', version = '1.1' } = wishes
  const lines: Record<string, string | null> = {
    host: `Host: ${host}`,
    connection: 'Connection: close',
    from: 'AS2-From: ACME-AS2',
    to: 'AS2-To: "GLOBEX AS2"',
    id: `Message-ID: ${id}`,
    type: 'Content-Type: application/edifact',
    receipt: 'Disposition-Notification-To: anybody',
    options: 'Disposition-Notification-Options: signed-receipt-micalg=optional, sha-256',
    length: `Content-Length: ${body.length}`,
    ...headers,
  }
  const present = Object.values(lines).filter((line) => line !== null)
  return { id, text: [`POST ${pathname} HTTP/${version}`, ...present, '', ''].join(eol) + body }
}
