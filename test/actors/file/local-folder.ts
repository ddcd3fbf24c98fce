import type { Caller } from '../../../actors/file/folder-caller.ts'
import { pollerOperations, type PollerOperations } from '../../../actors/file/folder-operations.ts'
import type { FolderPlaces } from '../../../actors/file/folder-work.ts'

/** A poller's folders in the process of the test. */
export function openLocalFolder(places: FolderPlaces): Caller<PollerOperations> {
  const operations = pollerOperations()
  operations.open(places)
  return async (operation, argument) => operations[operation](argument as never) as never
}
