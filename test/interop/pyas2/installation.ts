import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** pyas2lib and what it needs, from PyPI, once, in a virtual environment in the cache of the checkout. */
const PACKAGES = [
  'pyas2lib==1.4.4',
  'asn1crypto==1.5.1',
  'cffi==2.1.1',
  'cryptography==50.0.2',
  'oscrypto==1.3.0',
  'pycparser==3.12',
  'pyOpenSSL==26.4.0',
  'typing_extensions==4.16.0',
] as const

const FOLDER = fileURLToPath(new URL('../../../node_modules/.cache/waybill/pyas2lib-1.4.4', import.meta.url))
/** Written last: a virtual environment cannot be moved to its place when it is complete. */
const COMPLETE = join(FOLDER, 'complete')

export const PYTHON = join(FOLDER, 'bin', 'python')

/** @throws Error when Python is missing */
export function installPyAs2(): void {
  if (existsSync(COMPLETE)) return
  try {
    execFileSync('python3', ['-c', 'import venv, ensurepip'], { stdio: 'ignore' })
  } catch {
    throw new Error('The tests with pyas2lib need the command python3 (3.9 or newer) with venv in the PATH.')
  }
  rmSync(FOLDER, { recursive: true, force: true })
  mkdirSync(join(FOLDER, '..'), { recursive: true })
  execFileSync('python3', ['-m', 'venv', FOLDER], { stdio: 'inherit' })
  execFileSync(PYTHON, ['-m', 'pip', 'install', '-q', '--no-deps', ...PACKAGES], { stdio: 'inherit' })
  writeFileSync(COMPLETE, '')
}
