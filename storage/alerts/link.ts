/** The address of an alert's subject: PUBLIC_URL, with or without a slash at its end, and the path of the API. */
export function linkOf(publicUrl: string, path: string): string
export function linkOf(publicUrl: string, path: string | null): string | null
export function linkOf(publicUrl: string, path: string | null): string | null {
  return path === null ? null : publicUrl.replace(/\/+$/, '') + path
}
