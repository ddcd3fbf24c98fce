import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeCertificate } from '../../support/certificates.ts'
import type { Teardown } from '../../support/database.ts'
import { temporaryDirectory } from '../../support/processes.ts'
import { reservePort, type ReservedPort } from '../../support/reserved-port.ts'
import { Waybill } from '../../support/waybill.ts'
import { as2IdOf, digestOf, OUR_AS2_ID, Site, type SiteCase, type SiteOptions } from '../site.ts'
import { OpenAs2 } from './openas2.ts'
import type { OpenAs2Partnership } from './partnership.ts'
import type { ReceiptRecord } from './receipt-record.ts'

/** A Waybill and an OpenAS2 that know each other under many names: one pair of AS2 ids for each case. */

const LOG_CHARACTERS = 10_000

export interface Case extends SiteCase {
  /** How OpenAS2 sends; default: signed with SHA-256, nothing else, no receipt. */
  readonly partnership?: Partial<OpenAs2Partnership>
}

export interface ExchangeOptions {
  /** Where the service takes messages. */
  readonly place?: ReservedPort
  /** OpenAS2's largest heap. */
  readonly heapMegabytes?: number
}

export class Exchange extends Site {
  readonly openAs2: OpenAs2

  private constructor(openAs2: OpenAs2, options: SiteOptions) {
    super(options)
    this.openAs2 = openAs2
  }

  /** Starts both, with everything configured. */
  static async start(
    t: Teardown,
    cases: readonly Case[],
    { place, heapMegabytes = 1_024 }: ExchangeOptions = {},
  ): Promise<Exchange> {
    const directory = await temporaryDirectory(t)
    const receiver = place ?? (await reservePort())
    const ours = makeCertificate({ commonName: 'Waybill' })
    const stranger = makeCertificate({ commonName: 'Stranger' })
    const url = `http://${receiver.host}:${receiver.port}/as2`
    const openAs2 = await OpenAs2.start({
      certificates: { waybill: ours, stranger },
      partnerships: cases.map((each) => partnershipOf(each, url)),
      heapMegabytes,
    })
    t.teardown(() => openAs2.stop())
    const waybill = await Waybill.start({ directory })
    t.teardown(async () => void (await waybill.stop()))
    const keys = { ours, theirs: openAs2.keys, stranger }
    const options = { waybill, directory, cases, receiver, peerUrl: openAs2.url, keys }
    const exchange = new Exchange(openAs2, options)
    await exchange.setUp()
    return exchange
  }

  override async peerLog(): Promise<string> {
    return (await this.openAs2.log()).slice(-LOG_CHARACTERS)
  }

  /** Waits for a file that OpenAS2 took; answers its name and the SHA-256 of its content. */
  async takenByOpenAs2(name: string): Promise<{ readonly fileName: string; readonly digest: string }> {
    return this.watched(`a file from us in OpenAS2's inbox of ${name}`, async () => {
      const [fileName] = await this.openAs2.received(name)
      if (fileName === undefined) return undefined
      return { fileName, digest: digestOf(await readFile(join(this.openAs2.inbox(name), fileName))) }
    })
  }

  /** Waits for the record of the receipt that OpenAS2 made, or took as good, for a message. */
  async receiptRecord(messageId: string): Promise<ReceiptRecord> {
    return this.watched(`OpenAS2's record of a receipt for ${messageId}`, async () =>
      (await this.openAs2.receipts()).find(({ originalMessageId }) => originalMessageId === messageId),
    )
  }

  /** Waits until OpenAS2 has given up sending the file of a case. */
  async givenUpByOpenAs2(name: string): Promise<void> {
    await this.watched(`OpenAS2 to give up a file of ${name}`, async () => {
      const [fileName] = await this.openAs2.failed(name)
      return fileName
    })
  }

  /** Waits for a line in OpenAS2's log. */
  async logged(pattern: RegExp): Promise<string> {
    return this.watched(`${pattern} in OpenAS2's log`, async () => {
      return pattern.exec(await this.openAs2.log())?.[0]
    })
  }
}

function partnershipOf(each: Case, partnerUrl: string): OpenAs2Partnership {
  return {
    name: each.name,
    as2Id: as2IdOf(each),
    partnerAs2Id: each.ourAs2Id ?? OUR_AS2_ID,
    partnerUrl,
    partnerCertificate: 'waybill',
    signature: 'sha256',
    encryption: null,
    compression: null,
    receipt: null,
    ...each.partnership,
  }
}
