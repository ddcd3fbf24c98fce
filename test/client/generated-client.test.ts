import { execFile } from 'node:child_process'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { makeCertificate } from '../support/certificates.ts'
import { temporaryDirectory } from '../support/processes.ts'
import { Waybill } from '../support/waybill.ts'

/** The client that others generate from the served document, in a package of its own with an older TypeScript. */
const PACKAGE = fileURLToPath(new URL('../openapi-client/', import.meta.url))
const GENERATED = join(PACKAGE, 'generated')
const execute = promisify(execFile)
const run = (script: string, args: readonly string[]) =>
  execute(process.execPath, [join(PACKAGE, 'node_modules', script), ...args], { cwd: PACKAGE }).catch(
    (failed: { stdout: string; stderr: string }) => {
      throw new Error(`${script}: ${failed.stdout}${failed.stderr}`)
    },
  )

t.setTimeout(300_000)

void t.test('a client generated from the served document compiles and drives the service', async (t) => {
  const directory = await temporaryDirectory(t)
  const waybill = await Waybill.start({ directory: join(directory, 'service') })
  t.teardown(() => waybill.stop())
  const base = `${waybill.url}/api/v1`

  await rm(GENERATED, { recursive: true, force: true })
  await mkdir(GENERATED)
  const document = join(GENERATED, 'openapi.yaml')
  await writeFile(document, await (await fetch(`${base}/openapi.yaml`)).text())
  // A property with a default may be left out of a request, which the generator otherwise takes for required.
  const options = ['--output', join(GENERATED, 'api.ts'), '--default-non-nullable=false']
  await run('openapi-typescript/bin/cli.js', [document, ...options])
  t.match(await readFile(join(GENERATED, 'api.ts'), 'utf8'), /export interface paths/)
  await t.resolves(run('typescript/bin/tsc', ['-p', PACKAGE]), 'it compiles strictly')

  await mkdir(join(directory, 'outbox', 'globex'), { recursive: true })
  const { certificatePem, privateKeyPem } = makeCertificate({ commonName: 'journey.example' })
  await writeFile(join(directory, 'certificate.pem'), certificatePem)
  await writeFile(join(directory, 'private-key.pem'), privateKeyPem)
  const journey = join(PACKAGE, 'journey.ts')
  const { stdout } = await execute(process.execPath, [journey, base, directory])
  t.same(JSON.parse(stdout), {
    certificate: 'journey.example',
    message: { file_name: 'order.edi', from: 'acme', to: 'globex', size: 3 },
    refusal: 'CONFLICT',
    removed: 204,
  })
})
