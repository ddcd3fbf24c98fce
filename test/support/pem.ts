/** PEM of any label, with lines of 64 characters. */
export function pemOf(label: string, bytes: Uint8Array, headers: readonly string[] = []): string {
  const lines =
    Buffer.from(bytes)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  const head = headers.length === 0 ? [] : [...headers, '']
  return [`-----BEGIN ${label}-----`, ...head, ...lines, `-----END ${label}-----`, ''].join('\n')
}
