import { appendFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'

/**
 * A probe of a directory on a file system that hangs: it notes itself in the file `begun`, gets as far as the write and
 * waits there, until the file `back` lies in the directory or the test has ended and removed it.
 */
const [directory = ''] = process.argv.slice(2)
const begun = join(directory, 'begun')
appendFileSync(begun, `${process.pid}\n`)
console.log(JSON.stringify({ step: 'open' }))
console.log(JSON.stringify({ step: 'write' }))
const timer = setInterval(() => {
  if (existsSync(begun) && !existsSync(join(directory, 'back'))) return
  clearInterval(timer)
  console.log(JSON.stringify({ ok: true }))
}, 10)
