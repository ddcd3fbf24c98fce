import { probeDirectory } from './probe.ts'

/**
 * A process of its own that tries a payload directory out (storage-test.ts starts it). It tells each step as it begins,
 * and then the result, a line of JSON each.
 */
const [directory] = process.argv.slice(2)
if (directory === undefined) throw new Error('The argument is missing: the directory')
const tell = (line: object): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}
tell(await probeDirectory(directory, (step) => tell({ step })))
