/** The limits between what is held in memory and what streams, and of what a stream may hold. */

/**
 * A message body, or CMS content that we write, up to this size is handled in memory; a larger one streams. Below it
 * nearly all messages lie, and one buffer is faster than a stream of chunks.
 */
export const IN_MEMORY_BYTES = 1024 * 1024

/**
 * What is compressed and expands to more than this streams as well, however small the body is. Several of them lie in
 * memory at the same time, in up to three forms each while a signature is verified.
 */
export const MAX_EXPANDED_BYTES = 4 * IN_MEMORY_BYTES

/** What streams is gathered into chunks of about this size, so that each step's own cost does not count. */
export const CHUNK_BYTES = 64 * 1024

/** Structures between large contents (recipients, signers, algorithms) are held in memory up to this size each. */
export const MAX_STRUCTURE_BYTES = 1024 * 1024
