/** The write-only properties of a remote profile, sealed as one JSON object. */
export interface RemoteProfileSecrets {
  readonly http_basic_password: string
  readonly http_headers: readonly { readonly name: string; readonly value: string }[]
}

/** What the sealed secrets of a partner's profile are bound to. */
export function remoteProfileContext(partnerId: number): string {
  return `as2-remote-profile ${partnerId} secrets`
}
