import { execFileSync } from 'node:child_process'
import { installOpenAs2 } from './openas2/installation.ts'
import { installPyAs2 } from './pyas2/installation.ts'

/** The suite needs the command `openssl`; where it is missing, Debian's package is installed. Then the peers. */
try {
  execFileSync('openssl', ['version'], { stdio: 'ignore' })
} catch {
  execFileSync('apt-get', ['update'], { stdio: 'inherit' })
  execFileSync('apt-get', ['install', '-y', 'openssl'], { stdio: 'inherit' })
}

try {
  installOpenAs2()
  installPyAs2()
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}
