import type { ByteSource } from './byte-source.ts'
import type { Conclusion } from './conclusion.ts'
import type { StreamedEntity } from './entity.ts'

/** What opens the bytes inside a layer. */
export type Inside = (content: ByteSource) => Promise<Conclusion>
export type InsideEntity = (entity: StreamedEntity) => Promise<Conclusion>
