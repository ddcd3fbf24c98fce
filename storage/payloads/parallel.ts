/**
 * Acts on all items, on so many at a time. Begins nothing more after a failure, and waits for all that it began:
 * nothing goes on behind the caller's back.
 */
export async function inParallel<Item>(
  limit: number,
  items: readonly Item[],
  act: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items.values()
  const work = async () => {
    for (const item of rest) await act(item)
  }
  const workers = Array.from({ length: Math.min(limit, items.length) }, work)
  const failed = (await Promise.allSettled(workers)).find((outcome) => outcome.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}
