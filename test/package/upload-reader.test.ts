import { execFile } from 'node:child_process'
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { makeCertificate } from '../support/certificates.ts'
import { plainCommand, temporaryDirectory } from '../support/processes.ts'

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))
const execute = promisify(execFile)

/** Reads the file that is named, and prints what is found. */
const PROGRAM = `
import { readFileSync } from 'node:fs'
import { UploadReader } from './dist/storage/certificates/reading/upload-reader.js'
const reader = new UploadReader({ log: console })
const certificate = readFileSync(process.argv[2])
const { certificates, keys } = await reader.read({ certificate, privateKey: undefined, password: '' })
console.log(JSON.stringify([certificates[0].facts.common_name, keys.length, certificates[0].keyIndex]))
await reader.close()
`

void t.test('uploads are read in a thread of the built files too', async (t) => {
  const directory = await temporaryDirectory(t)
  const run = (command: string, args: readonly string[]) =>
    execute(...plainCommand(command, args), { cwd: directory })
  const compiler = join(PROJECT, 'node_modules', 'typescript', 'bin', 'tsc')
  const settings = join(PROJECT, 'tsconfig.build.json')
  await run(process.execPath, [compiler, '-p', settings, '--outDir', join(directory, 'dist')])
  await symlink(join(PROJECT, 'node_modules'), join(directory, 'node_modules'), 'junction')
  await writeFile(join(directory, 'package.json'), '{"type":"module"}')
  await writeFile(join(directory, 'program.js'), PROGRAM)
  const { certificatePem, privateKeyPem } = makeCertificate({ commonName: 'built', keyType: 'ec' })
  await writeFile(join(directory, 'upload.pem'), certificatePem + privateKeyPem)
  const { stdout } = await run(process.execPath, ['program.js', 'upload.pem'])
  t.equal(stdout, '["built",1,0]\n')
})
