import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, openSync, readdirSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeCertificate, type TestCertificate } from '../../support/certificates.ts'
import { plainCommand } from '../../support/processes.ts'
import { reservePort, type ReservedPort } from '../../support/reserved-port.ts'
import {
  configFile,
  errorFolder,
  formatConfiguration,
  inbox,
  KEY_STORE_PASSWORD,
  keyStoreFile,
  logFile,
  outbox,
  partnershipsFile,
  receiptFolder,
  type OpenAs2Site,
} from './configuration.ts'
import { isOpenAs2Installed, OPENAS2_JARS } from './installation.ts'
import { createTrackingDatabase } from './tracking.ts'
import { formatPartnerships, OWN_ALIAS, type OpenAs2Partnership } from './partnership.ts'
import { parseReceiptRecord, type ReceiptRecord } from './receipt-record.ts'

const MAIN_CLASS = 'org.openas2.app.OpenAS2Server'
const START_LIMIT_MS = 180_000
const STOP_LIMIT_MS = 30_000
const LOOK_MS = 50
const LOG_TAIL_CHARACTERS = 20_000

/** Whoever ends without stopping them must not leave them behind. */
const children = new Set<ChildProcess>()
process.once('exit', () => children.forEach((child) => child.kill('SIGKILL')))

export interface OpenAs2Options {
  /** Certificates of partners by their names (lower case), which partnerships refer to. */
  readonly certificates: Readonly<Record<string, TestCertificate>>
  readonly partnerships: readonly OpenAs2Partnership[]
  /** Its own key, which signs and decrypts; default a new one of RSA 2048. */
  readonly keys?: TestCertificate
  /** Keeps track of messages as its distribution is set up to; default false: sooner started, and less to run. */
  readonly tracking?: boolean
  /** The largest heap; default 2048. It holds a message several times over. */
  readonly heapMegabytes?: number
}

/**
 * A real OpenAS2 server, in a process and a temporary directory of its own, on loopback.
 *
 * Once: `node test/interop/prepare.ts` installs it (see `installation.ts`; `isOpenAs2Installed()` tells).
 *
 *     const peer = makeCertificate({ commonName: 'us' })
 *     const openAs2 = await OpenAs2.start({
 *       certificates: { us: peer },
 *       partnerships: [{ name: 'a', as2Id: 'OPENAS2', partnerAs2Id: 'US', partnerUrl: 'http://127.0.0.1:10080/as2',
 *         partnerCertificate: 'us', signature: 'sha256', encryption: 'aes256', compression: null,
 *         receipt: { signed: true, asynchronous: false } }],
 *     })
 *     // we send to openAs2.url, encrypted to openAs2.keys.certificate; it sends what is dropped
 *     await openAs2.drop('a', 'invoice.edi', Buffer.from('…'))
 *     await openAs2.received('a')      // names of the files that came in
 *     await openAs2.receipts()         // records of receipts that it made, or took as good
 *     await openAs2.stop()
 */
export class OpenAs2 {
  /** Its certificate and key. */
  readonly keys: TestCertificate
  readonly #site: OpenAs2Site
  readonly #process: ChildProcess

  private constructor(site: OpenAs2Site, keys: TestCertificate, child: ChildProcess) {
    this.#site = site
    this.keys = keys
    this.#process = child
  }

  /** Starts it and resolves when it takes requests and looks into its folders. */
  static async start(options: OpenAs2Options): Promise<OpenAs2> {
    if (!isOpenAs2Installed()) throw new Error('OpenAS2 is not installed: run node test/interop/prepare.ts')
    const directory = await mkdtemp(join(tmpdir(), 'waybill-openas2-'))
    try {
      const site = { directory, ...(await reservePorts()) }
      const { keys = makeCertificate({ commonName: 'OpenAS2' }) } = options
      await writeFiles(site, keys, options)
      const child = spawnServer(site, options.heapMegabytes ?? 2_048)
      const server = new OpenAs2(site, keys, child)
      await server.#untilReady()
      return server
    } catch (thrown) {
      await rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
      throw thrown
    }
  }

  /** Where it takes messages. */
  get url(): string {
    return urlOf(this.#site.messages)
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  get running(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null
  }

  /** Hands a file over to be sent; it appears complete. `at` is the number of the outbox, where there are several. */
  async drop(partnership: string, fileName: string, content: string | Uint8Array, at = 0): Promise<void> {
    const draft = join(this.#site.directory, `draft-${randomUUID()}`)
    await writeFile(draft, content)
    await this.dropDraft(partnership, fileName, draft, at)
  }

  /** Hands over a file that exists already in `draftFolder`, by moving it. */
  async dropDraft(partnership: string, fileName: string, draft: string, at = 0): Promise<void> {
    const folder = outbox(this.#site, partnership, at)
    await mkdir(folder, { recursive: true })
    await rename(draft, join(folder, fileName))
  }

  /** A folder on the same file system, in which files can be prepared. */
  get draftFolder(): string {
    return this.#site.directory
  }

  /** Names of the files that came in. */
  async received(partnership: string): Promise<string[]> {
    return filesIn(this.inbox(partnership))
  }

  /** The folder of the files that came in; it is made with the first one, and each appears complete. */
  inbox(partnership: string): string {
    return inbox(this.#site, partnership)
  }

  /** Names of files that it gave up sending. */
  async failed(partnership: string): Promise<string[]> {
    return filesIn(errorFolder(this.#site, partnership))
  }

  /** Records of receipts so far. */
  async receipts(): Promise<ReceiptRecord[]> {
    const folder = receiptFolder(this.#site)
    const names = await filesIn(folder)
    return Promise.all(
      names.map(async (name) => parseReceiptRecord(await readFile(join(folder, name), 'utf8'))),
    )
  }

  /** Everything it has logged. */
  async log(): Promise<string> {
    return readFile(logFile(this.#site), 'utf8')
  }

  /** Ends it and removes its files. */
  async stop(): Promise<void> {
    if (this.running) {
      const exited = once(this.#process, 'exit')
      this.#process.kill('SIGTERM')
      const killer = setTimeout(() => this.#process.kill('SIGKILL'), STOP_LIMIT_MS)
      await exited
      clearTimeout(killer)
    }
    await rm(this.#site.directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  }

  async #untilReady(): Promise<void> {
    const deadline = performance.now() + START_LIMIT_MS
    while (!(await this.#isReady())) {
      const late = performance.now() > deadline
      if (this.running && !late) {
        await sleep(LOOK_MS)
        continue
      }
      const log = (await this.log()).slice(-LOG_TAIL_CHARACTERS)
      await this.stop()
      throw new Error(`OpenAS2 ${late ? 'did not start in time' : 'ended'}:\n${log}`)
    }
  }

  /** Its last line of the start, and an answer at the port. */
  async #isReady(): Promise<boolean> {
    if (!/ OpenAS2Server: .* started\.$/m.test(await this.log())) return false
    const answer = await fetch(`${this.url}healthcheck`).catch(() => null)
    await answer?.body?.cancel()
    return answer?.status === 200
  }
}

/** Both on one host: a partner may be told to send receipts to the host of its own messages alone. */
async function reservePorts(): Promise<Pick<OpenAs2Site, 'messages' | 'receipts'>> {
  const messages = await reservePort()
  for (;;) {
    const { port } = await reservePort()
    if (port !== messages.port) return { messages, receipts: { host: messages.host, port } }
  }
}

const urlOf = ({ host, port }: ReservedPort): string => `http://${host}:${port}/`

async function writeFiles(site: OpenAs2Site, keys: TestCertificate, options: OpenAs2Options): Promise<void> {
  const { partnerships, certificates, tracking = false } = options
  const urls = { messages: urlOf(site.messages), receipts: urlOf(site.receipts) }
  await writeKeyStore(site, keys, certificates)
  await writeFile(configFile(site), formatConfiguration(site, partnerships, tracking))
  if (tracking) await createTrackingDatabase(site)
  await writeFile(partnershipsFile(site), formatPartnerships(partnerships, urls))
}

/** One private key and any number of certificates, sealed as every version of Java and Bouncy Castle reads it. */
async function writeKeyStore(
  site: OpenAs2Site,
  keys: TestCertificate,
  certificates: OpenAs2Options['certificates'],
): Promise<void> {
  const pem = join(site.directory, 'certificates.pem')
  const others = Object.values(certificates).map(({ certificatePem }) => certificatePem)
  await writeFile(pem, [keys.privateKeyPem, keys.certificatePem, ...others].join(''))
  const names = Object.keys(certificates).flatMap((name) => ['-caname', name])
  const sealing = ['-keypbe', 'PBE-SHA1-3DES', '-certpbe', 'PBE-SHA1-3DES', '-macalg', 'sha1']
  const output = ['-out', keyStoreFile(site), '-passout', `pass:${KEY_STORE_PASSWORD}`]
  execFileSync(
    'openssl',
    ['pkcs12', '-export', '-in', pem, '-name', OWN_ALIAS, ...names, ...sealing, ...output],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
}

function spawnServer(site: OpenAs2Site, heapMegabytes: number): ChildProcess {
  const java = [
    `-Xmx${heapMegabytes}m`,
    '-Djava.awt.headless=true',
    '-Dfile.encoding=UTF-8',
    '-Dorg.apache.commons.logging.Log=org.openas2.logging.Log',
    '-cp',
    classPath(),
    MAIN_CLASS,
    configFile(site),
  ]
  const log = openSync(logFile(site), 'a')
  const child = spawn(...plainCommand('java', java), {
    cwd: site.directory,
    // Names of files are UTF-8 whatever the machine's language is.
    env: { ...process.env, LC_ALL: 'C.UTF-8' },
    stdio: ['ignore', log, log],
    // Ctrl+C in a terminal goes to the whole group of processes; whoever started this one ends it.
    detached: true,
  })
  closeSync(log)
  children.add(child)
  child.once('exit', () => children.delete(child))
  return child
}

/**
 * OpenAS2's own jar last: it has an index of the others that Java up to 21 believes, and that hides what JavaMail has to
 * say of `multipart/report`.
 */
function classPath(): string {
  const jars = readdirSync(OPENAS2_JARS).filter((name) => name.endsWith('.jar'))
  const isOwn = (name: string): boolean => name.startsWith('openas2-')
  const ordered = [...jars.filter((name) => !isOwn(name)), ...jars.filter(isOwn)]
  return ordered.map((name) => join(OPENAS2_JARS, name)).join(delimiter)
}

/** Files of a folder that may not exist yet. */
async function filesIn(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  })
  const kinds = await Promise.all(names.map((name) => stat(join(folder, name))))
  return names.filter((_, at) => kinds[at]?.isFile() === true)
}
