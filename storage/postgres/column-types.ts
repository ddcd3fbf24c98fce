import pg, { type CustomTypesConfig } from 'pg'

const { INT8 } = pg.types.builtins

/** Ids and sizes are `bigint` columns whose values stay far below 2^53; one above is a defect, not a rounded number. */
function safeInteger(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`bigint ${text} is not a safe integer`)
  return value
}

/** How columns of hot statements become values: `bigint` a number, `timestamptz` a Date, the rest as pg has it. */
export const columnTypes: CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    oid === INT8 && format !== 'binary' ? safeInteger : pg.types.getTypeParser(oid, format),
}
