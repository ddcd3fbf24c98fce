/** JSON data, such as a JSON Schema or a part of the document. */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }
export type JsonObject = { readonly [name: string]: Json }

export function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value)
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function asObject(value: Json): JsonObject {
  if (!isObject(value)) throw new Error('A JSON Schema is an object')
  return value
}

/** The same value as JSON data, without what JSON does not know. */
export function plain(value: unknown): Json {
  const data: Json = JSON.parse(JSON.stringify(value))
  return data
}
