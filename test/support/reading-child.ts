import { begun, type ReadingResult, type ReadingTask } from '../../storage/certificates/reading/thread.ts'

/** A reading thread that does what the password says, beside answering that it found nothing. */
export default function read({ upload, progress }: ReadingTask): ReadingResult {
  progress.postMessage(begun('certificate'), [])
  if (upload.privateKey !== undefined) progress.postMessage(begun('private_key'), [])
  switch (upload.password) {
    case 'go on for ever':
      for (;;);
    case 'wait for ever':
      pause(Infinity)
      break
    case 'wait':
      pause(2_000)
      break
    case 'take memory':
      takeMemory()
      break
    case 'end':
      process.exit(3)
      break
    case 'fail':
      throw new Error('A defect')
    default:
  }
  return { kind: 'found', material: { certificates: [], keys: [], notes: [upload.password], leftOut: false } }
}

/** Without work, as a thread that the machine does not come to. */
function pause(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
}

function takeMemory(): void {
  const kept: unknown[] = []
  for (;;) kept.push(Array.from({ length: 1000 }, (_, at) => ({ at })))
}
