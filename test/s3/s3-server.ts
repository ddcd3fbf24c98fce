import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { S3Client } from '@aws-sdk/client-s3'
import type { StorageSettings } from '../../storage/settings/storage-settings.ts'
import type { Teardown } from '../support/database.ts'
import { plainCommand, temporaryDirectory } from '../support/processes.ts'
import { reservePort, type ReservedPort } from '../support/reserved-port.ts'

export const SERVER_VERSION = 'v1.8.0'
/** `prepare.ts` builds it. */
export const SERVER_PROGRAM = fileURLToPath(
  new URL(`../../node_modules/.cache/waybill/versitygw-${SERVER_VERSION}`, import.meta.url),
)
export const BUCKET = 'acme-payloads'
const REGION = 'eu-central-1'
const START_LIMIT_MS = 60_000
/** Of all servers of this process: the AWS SDK finds them in its environment, and tests may run side by side. */
const ACCESS_KEY_ID = `key${randomBytes(6).toString('hex')}`
const SECRET_ACCESS_KEY = randomBytes(20).toString('hex')

/** A test that ends without stopping them must not leave them behind. */
const children = new Set<ChildProcess>()
process.once('exit', () => children.forEach((child) => child.kill('SIGKILL')))

/** A real S3 server on loopback that keeps buckets as folders. It keeps its place when it is started again. */
export class S3Server {
  readonly place: ReservedPort
  readonly accessKeyId = ACCESS_KEY_ID
  readonly secretAccessKey = SECRET_ACCESS_KEY
  readonly #directory: string
  #process: ChildProcess | null = null

  private constructor(place: ReservedPort, directory: string) {
    this.place = place
    this.#directory = directory
  }

  /** Starts one with the bucket `BUCKET`, which ends with the test. Credentials are put into the environment. */
  static async start(t: Teardown): Promise<S3Server> {
    const server = new S3Server(await reservePort(), await temporaryDirectory(t))
    await mkdir(server.folder(BUCKET), { recursive: true })
    await mkdir(join(server.#directory, 'facts'))
    await mkdir(join(server.#directory, 'users'))
    t.teardown(() => server.kill())
    await server.start()
    Object.assign(process.env, server.credentials)
    return server
  }

  get endpoint(): string {
    return `http://${this.place.host}:${this.place.port}`
  }

  /** As the AWS SDK finds them in the environment. */
  get credentials(): Record<string, string> {
    return {
      AWS_ACCESS_KEY_ID: this.accessKeyId,
      AWS_SECRET_ACCESS_KEY: this.secretAccessKey,
      AWS_EC2_METADATA_DISABLED: 'true',
    }
  }

  /** Settings of the bucket; without an endpoint of its own, the server's. */
  settings(other: Partial<StorageSettings> = {}): StorageSettings {
    return {
      storage_backend: 's3',
      storage_local_directory: '',
      storage_s3_bucket: BUCKET,
      storage_s3_region: REGION,
      storage_s3_endpoint: this.endpoint,
      ...other,
    }
  }

  /** Where the objects of a bucket lie as files. */
  folder(bucket = BUCKET): string {
    return join(this.#directory, 'buckets', bucket)
  }

  client(t: Teardown): S3Client {
    const { accessKeyId, secretAccessKey, endpoint } = this
    const credentials = { accessKeyId, secretAccessKey }
    const client = new S3Client({ region: REGION, endpoint, forcePathStyle: true, credentials })
    t.teardown(async () => client.destroy())
    return client
  }

  /** Makes a user who may do nothing; answers its credentials. */
  async addUser(accessKeyId: string): Promise<Record<string, string>> {
    const secretAccessKey = randomBytes(20).toString('hex')
    const root = ['--access', this.accessKeyId, '--secret', this.secretAccessKey]
    const user = ['--access', accessKeyId, '--secret', secretAccessKey, '--role', 'user']
    const command = [
      'admin',
      ...root,
      '--region',
      REGION,
      '--endpoint-url',
      this.endpoint,
      'create-user',
      ...user,
    ]
    const [code] = (await once(spawn(SERVER_PROGRAM, command, { stdio: 'inherit' }), 'exit')) as [number]
    if (code !== 0) throw new Error('The user cannot be made')
    return { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey }
  }

  /** Resolves when it answers. */
  async start(): Promise<void> {
    const { host, port } = this.place
    const options = ['--port', `${host}:${port}`, '--region', REGION, '--quiet', '--keep-alive']
    const users = ['--iam-dir', join(this.#directory, 'users')]
    const backend = ['posix', '--sidecar', join(this.#directory, 'facts'), join(this.#directory, 'buckets')]
    const child = spawn(...plainCommand(SERVER_PROGRAM, [...options, ...users, ...backend]), {
      env: {
        PATH: process.env['PATH'],
        ROOT_ACCESS_KEY_ID: this.accessKeyId,
        ROOT_SECRET_ACCESS_KEY: this.secretAccessKey,
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    children.add(child)
    child.once('exit', () => children.delete(child))
    this.#process = child
    const deadline = Date.now() + START_LIMIT_MS
    while (!(await this.#answers())) {
      if (child.exitCode !== null || Date.now() > deadline) throw new Error('The S3 server does not start')
      await sleep(20)
    }
  }

  /** Ends it as a power failure would. */
  async kill(): Promise<void> {
    const child = this.#process
    this.#process = null
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }

  async #answers(): Promise<boolean> {
    return fetch(this.endpoint, { signal: AbortSignal.timeout(5_000) }).then(
      () => true,
      () => false,
    )
  }
}
