import { createWriteStream } from 'node:fs'
import { link, mkdir, readdir, realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { makeDirectory, syncDirectory } from '../../storage/durable-file.ts'
import { PermanentFailure } from '../../storage/exchange/retry.ts'
import { numbered } from './names.ts'

export type OnConflict = 'rename' | 'overwrite' | 'fail'

export interface Publication {
  readonly deliveryId: number
  readonly fencing: number
  /** Relative to the base directory; every part a safe name. */
  readonly path: string
  readonly onConflict: OnConflict
  readonly open: () => Promise<Readable>
}

/** How many numbered names are tried before it counts as a failure. */
const MAX_NUMBER = 10_000
/** Drafts lie beside the published files, on the same file system, where no reader of the tree looks. */
const WORKSHOP = '.waybill'

/**
 * Publishes files under a base directory: complete or not at all, and once. A draft is written and flushed, and gets
 * its final name as a second link, which fails when the name is taken. The draft is then renamed to `.done`, and is
 * removed when the delivery is settled. So a crash at any point leaves a trace that says whether the file was
 * published: a draft with one link was not; one with two, or named `.done`, was.
 */
export class Publisher {
  readonly #baseDirectory: string
  readonly #workshop: string

  private constructor(baseDirectory: string) {
    this.#baseDirectory = baseDirectory
    this.#workshop = join(baseDirectory, WORKSHOP)
  }

  static async open(baseDirectory: string): Promise<Publisher> {
    await makeDirectory(baseDirectory, 0o777)
    const publisher = new Publisher(await realpath(baseDirectory))
    await makeDirectory(publisher.#workshop, 0o700)
    return publisher
  }

  async publish(publication: Publication): Promise<void> {
    if (await this.#wasPublished(publication.deliveryId)) return
    const draft = join(this.#workshop, `${publication.deliveryId}.${publication.fencing}.part`)
    await pipeline(await publication.open(), createWriteStream(draft, { flush: true }))
    const final = join(this.#baseDirectory, publication.path)
    await this.#enter(dirname(final))
    if (publication.onConflict === 'overwrite') {
      // A rename replaces in one step; what it replaces is gone anyway, so a repeat after a crash does no harm.
      await rename(draft, final)
    } else {
      await linkFree(draft, final, publication.onConflict)
      await rename(draft, draft.replace(/part$/, 'done'))
    }
    await syncDirectory(dirname(final))
  }

  /** Removes the traces of a delivery that is settled. */
  async finished(deliveryId: number): Promise<void> {
    for (const trace of await this.#tracesOf(deliveryId))
      await rm(join(this.#workshop, trace), { force: true })
  }

  /** Removes the traces of all deliveries but those that `isOpen` says are not settled. */
  async sweep(isOpen: (deliveryIds: readonly number[]) => Promise<ReadonlySet<number>>): Promise<void> {
    const traces = await readdir(this.#workshop)
    const ids = [...new Set(traces.map((trace) => Number.parseInt(trace, 10)))].filter((id) =>
      Number.isSafeInteger(id),
    )
    if (ids.length === 0) return
    const open = await isOpen(ids)
    for (const id of ids) if (!open.has(id)) await this.finished(id)
  }

  async #wasPublished(deliveryId: number): Promise<boolean> {
    for (const trace of await this.#tracesOf(deliveryId)) {
      if (trace.endsWith('.done')) return true
      const { nlink } = await stat(join(this.#workshop, trace))
      if (nlink > 1) return true
    }
    return false
  }

  async #tracesOf(deliveryId: number): Promise<string[]> {
    return (await readdir(this.#workshop)).filter((trace) => trace.startsWith(`${deliveryId}.`))
  }

  /** Makes a directory below the base and sees to it that no symbolic link leads out of it. */
  async #enter(directory: string): Promise<void> {
    const made = await mkdir(directory, { recursive: true })
    const real = await realpath(directory)
    if (real !== this.#baseDirectory && !real.startsWith(this.#baseDirectory + sep)) {
      throw new PermanentFailure(`The directory ${directory} leads out of the base directory`)
    }
    if (made !== undefined) await syncDirectory(dirname(made))
  }
}

async function linkFree(draft: string, final: string, onConflict: 'rename' | 'fail'): Promise<void> {
  let path = final
  for (let number = 2; ; number += 1) {
    try {
      return await link(draft, path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      if (onConflict === 'fail') throw new PermanentFailure(`The file ${basename(final)} is there already`)
      if (number > MAX_NUMBER) throw new PermanentFailure(`No free name for ${basename(final)}`)
      path = join(dirname(final), numbered(basename(final), number))
    }
  }
}
