/** A folder process that opens its folders and never answers anything else, like one whose file system hangs. */
process.on('message', ({ id, operation }: { id: number; operation: string }) => {
  if (operation === 'open') process.send?.({ id, ok: true, answer: null })
  else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
})
