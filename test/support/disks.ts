import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { copyFile, mkdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Teardown } from './database.ts'
import { isAlive, temporaryDirectory } from './processes.ts'

/**
 * Real disks of a test's own, which root alone can make. A test that cannot have one fails: it says nothing otherwise.
 * They are gone with the test, also with one that a signal ends; what a killed one left, the next one removes, which knows
 * it by the process id in the name of its place.
 */

const PLACE = 'disk-'
/** What a tmpfs says that it is made of. */
const DEVICE = 'waybill-test-'
/** Mounted here: place and device of each, the latest first. */
const mounted = new Map<string, string>()

const tryTo = (command: string, ...args: readonly string[]): void => void spawnSync(command, args)
const run = (command: string, ...args: readonly string[]): string =>
  execFileSync(command, args, { encoding: 'utf8' }).trim()

process.once('exit', unmountAll)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => {
    unmountAll()
    process.kill(process.pid, signal)
  })
}
unmountForgotten()

function unmountAll(): void {
  for (const [path, device] of [...mounted].toReversed()) unmount(path, device)
}

/** Lazily: what a test that failed still has open must not keep it. */
function unmount(path: string, device: string): void {
  if (!mounted.delete(path)) return
  tryTo('umount', '-l', path)
  if (device.startsWith('/dev/loop')) tryTo('losetup', '-d', device)
}

function unmountForgotten(): void {
  if (process.platform !== 'linux') return
  for (const line of readFileSync('/proc/self/mounts', 'utf8').split('\n').toReversed()) {
    const [device = '', path = ''] = line.split(' ')
    const [, pid] = /^waybill-test-(\d+)$/.exec(device) ?? /waybill-t-.*\/disk-(\d+)$/.exec(path) ?? []
    if (pid === undefined || isAlive(Number(pid))) continue
    mounted.set(path, device)
    unmount(path, device)
  }
}

function mount(t: Teardown, path: string, device: string, ...options: readonly string[]): void {
  run('mount', ...options, device, path)
  mounted.set(path, device)
  t.teardown(async () => unmount(path, device))
}

async function newPlace(t: Teardown): Promise<string> {
  const path = join(await temporaryDirectory(t), `${PLACE}${process.pid}`)
  await mkdir(path)
  return path
}

/** An empty file system of so many bytes; more than that is ENOSPC. Further options of tmpfs are such as `nr_inodes=10`. */
export async function smallDisk(
  t: Teardown,
  sizeBytes: number,
  ...options: readonly string[]
): Promise<string> {
  const path = await newPlace(t)
  mountSmallDisk(t, path, sizeBytes, ...options)
  return path
}

/** The same at a place that the test has chosen. */
export function mountSmallDisk(
  t: Teardown,
  path: string,
  sizeBytes: number,
  ...options: readonly string[]
): void {
  const all = [`size=${sizeBytes}`, 'mode=0700', ...options].join(',')
  mount(t, path, DEVICE + process.pid, '-t', 'tmpfs', '-o', all)
}

/** Shows a directory at another place too, as a file system of its own that is mounted there. */
export function mountAt(t: Teardown, disk: string, place: string): () => void {
  mount(t, place, disk, '--bind')
  return () => unmount(place, disk)
}

export function remount(path: string, options: string): void {
  run('mount', '-o', `remount,${options}`, path)
}

export interface FailingDisk {
  readonly path: string
  /** From now on nearly all of the device answers EIO; what was read or written before is not in memory any more. */
  readonly fail: () => Promise<void>
  /** From now on all of the device answers EIO, and what was read or written before is still in memory. */
  readonly failWriting: () => Promise<void>
  readonly recover: () => Promise<void>
}

const DEVICE_BYTES = 48 * 2 ** 20
const LEFT_BYTES = 2 ** 20

/** A disk that can lose its device: an ext4 file system in a file that is cut short. */
export async function failingDisk(t: Teardown): Promise<FailingDisk> {
  const directory = await temporaryDirectory(t)
  const image = join(directory, 'image')
  const kept = join(directory, 'kept')
  const path = await newPlace(t)
  run('truncate', '-s', String(DEVICE_BYTES), image)
  // Without a journal it goes on when the device is back.
  run('mkfs.ext4', '-q', '-O', '^has_journal', '-E', 'nodiscard,lazy_itable_init=1', '-N', '1024', image)
  const device = run('losetup', '-f', '--show', image)
  const options = ['-o', 'errors=continue']
  mount(t, path, device, ...options)
  const resize = async (bytes: number): Promise<void> => {
    await truncate(image, bytes)
    run('losetup', '-c', device)
  }
  return {
    path,
    fail: async () => {
      run('umount', path)
      run('mount', ...options, device, path)
      await copyFile(image, kept)
      await resize(LEFT_BYTES)
    },
    failWriting: async () => {
      run('sync', '-f', path)
      await copyFile(image, kept)
      await resize(0)
    },
    recover: async () => {
      // Into the same file, which the device is made of.
      await writeFile(image, await readFile(kept), { flag: 'r+' })
      await resize(DEVICE_BYTES)
    },
  }
}
