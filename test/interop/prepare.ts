import { execFileSync } from 'node:child_process'

/** The suite needs the command `openssl`; where it is missing, Debian's package is installed. */
try {
  execFileSync('openssl', ['version'], { stdio: 'ignore' })
} catch {
  execFileSync('apt-get', ['update'], { stdio: 'inherit' })
  execFileSync('apt-get', ['install', '-y', 'openssl'], { stdio: 'inherit' })
}
