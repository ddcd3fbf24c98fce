import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { SERVER_PROGRAM, SERVER_VERSION } from './s3-server.ts'

/** The suite needs an S3 server of its own: versitygw is built once from the Go module proxy. */
if (!existsSync(SERVER_PROGRAM)) {
  const directory = join(SERVER_PROGRAM, '..')
  mkdirSync(directory, { recursive: true })
  try {
    execFileSync('go', ['version'], { stdio: 'ignore' })
  } catch {
    execFileSync('apt-get', ['update'], { stdio: 'inherit' })
    execFileSync('apt-get', ['install', '-y', 'golang-go'], { stdio: 'inherit' })
  }
  execFileSync('go', ['install', `github.com/versity/versitygw/cmd/versitygw@${SERVER_VERSION}`], {
    stdio: 'inherit',
    env: { ...process.env, GOBIN: directory },
  })
  // Only a whole one bears the name.
  renameSync(join(directory, 'versitygw'), SERVER_PROGRAM)
}
