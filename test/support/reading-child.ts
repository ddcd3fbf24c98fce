import type { ReadingResult, ReadingTask } from '../../storage/certificates/reading/thread.ts'

/** A reading thread that does what the password says, beside answering that it found nothing. */
export default function read({ upload, progress }: ReadingTask): ReadingResult {
  progress.postMessage('certificate', [])
  if (upload.privateKey !== undefined) progress.postMessage('private_key', [])
  switch (upload.password) {
    case 'go on for ever':
      for (;;);
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

function takeMemory(): void {
  const kept: unknown[] = []
  for (;;) kept.push(Array.from({ length: 1000 }, (_, at) => ({ at })))
}
