import { constants } from 'node:fs'
import { access, realpath } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { performance } from 'node:perf_hooks'
import type { ActorContext, RunningActor } from '../../runtime/thread/actor.ts'
import { JOURNAL_LIMIT_BYTES } from '../../storage/exchange/stages.ts'
import type { PartyPair } from '../../storage/sql/direction.ts'
import type { AcceptedMessage } from '../../storage/sql/accept.ts'
import { makeDirectory } from '../../storage/durable-file.ts'
import { openStorage, type ProcessFacts } from '../../storage/access.ts'
import { Intake } from './intake.ts'
import { nameMatcher, pathReader } from './pattern.ts'
import { depthOf, scan, type Candidate } from './scan.ts'
import { SettledFiles } from './settled-files.ts'
import { isWithin, type FilePollerSettings } from './settings.ts'
import { Warnings } from './warnings.ts'

/** One transaction takes in so many files, or so many bytes of them. */
const MAX_BATCH_FILES = 64
const MAX_BATCH_BYTES = 16 * 1024 * 1024

/** Runs a `file-poller`: watches a folder by looking, which network folders allow too, and takes in what has settled. */
export default async function start(context: ActorContext<FilePollerSettings>): Promise<RunningActor> {
  const { settings, name, log } = context
  const { baseDirectory, processedDirectory, errorDirectory } = await openDirectories(settings)
  const warnings = new Warnings(log)
  const storage = await openStorage(context.process as ProcessFacts, { log, name, poolSize: 2 })
  const intake = new Intake({
    pool: storage.pool,
    store: storage.payloads,
    source: name,
    baseDirectory,
    processedDirectory,
    errorDirectory,
    partiesOf: partyReader(settings),
    warnings,
  })
  const scanOptions = {
    baseDirectory,
    depth: depthOf(settings.path_pattern),
    excluded: new Set([processedDirectory, errorDirectory]),
    matches: nameMatcher(settings.file_pattern),
    warnings,
  }
  const settledFiles = new SettledFiles(settings.settle_seconds * 1000)

  const announce = async (messages: readonly AcceptedMessage[]): Promise<void> => {
    const counts = Map.groupBy(
      messages.flatMap(({ targets }) => targets),
      (target) => target,
    )
    await Promise.all([...counts].map(([target, { length }]) => context.announce(target, length)))
  }

  /** One look at the folder. Answers after how many milliseconds the next is due. */
  const round = async (): Promise<number> => {
    await announce(await intake.recover())
    const { settled, nextInMs } = settledFiles.look(await scan(scanOptions), performance.now())
    for (const batch of batches(settled)) {
      if (context.signal.aborted) break
      await announce(await intake.take(batch))
    }
    if (!context.signal.aborted) warnings.endRound()
    return Math.min(settings.polling_interval * 1000, nextInMs ?? Infinity)
  }

  const work = async (): Promise<void> => {
    while (!context.signal.aborted) {
      let pauseMs = settings.polling_interval * 1000
      try {
        pauseMs = await round()
      } catch (error) {
        log.error({ err: error }, 'cannot take files in')
      }
      await context.clock.sleep(pauseMs, context.signal).catch(() => undefined)
    }
  }

  const working = work()
  return {
    stop: async () => {
      await working
      await storage.close()
    },
  }
}

interface Directories {
  readonly baseDirectory: string
  readonly processedDirectory: string
  readonly errorDirectory: string
}

/** Makes them, sees that they can be used, and answers their real paths. */
async function openDirectories(settings: FilePollerSettings): Promise<Directories> {
  const processed = resolve(settings.processed_directory)
  const error = settings.error_directory === '' ? join(processed, 'error') : resolve(settings.error_directory)
  const baseDirectory = await openDirectory(resolve(settings.base_directory))
  const processedDirectory = await openDirectory(processed)
  const errorDirectory = await openDirectory(error)
  // The settings compare paths; only here is it known where symbolic links lead.
  for (const directory of [processedDirectory, errorDirectory]) {
    if (isWithin(baseDirectory, directory))
      throw new Error(
        `The base directory ${baseDirectory} is or lies in ${directory}, where files are moved to`,
      )
  }
  return { baseDirectory, processedDirectory, errorDirectory }
}

async function openDirectory(directory: string): Promise<string> {
  await makeDirectory(directory, 0o777)
  await access(directory, constants.R_OK | constants.W_OK | constants.X_OK)
  return realpath(directory)
}

function partyReader(settings: FilePollerSettings): (candidate: Candidate) => PartyPair | null {
  const read = pathReader(settings.path_pattern)
  return ({ path }) => {
    const places = read(path)
    const from = places?.from ?? (settings.from === '' ? null : settings.from)
    const to = places?.to
    return from === null || to === undefined ? null : { from, to }
  }
}

/** Large files go to the store as they are read and do not count. */
function* batches(candidates: readonly Candidate[]): Generator<Candidate[]> {
  let batch: Candidate[] = []
  let bytes = 0
  for (const candidate of candidates) {
    const size = candidate.size <= JOURNAL_LIMIT_BYTES ? candidate.size : 0
    if (batch.length >= MAX_BATCH_FILES || (batch.length > 0 && bytes + size > MAX_BATCH_BYTES)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(candidate)
    bytes += size
  }
  if (batch.length > 0) yield batch
}
