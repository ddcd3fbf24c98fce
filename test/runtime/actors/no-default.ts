/** An actor's file without the export that it needs. */
export const nothing = null
