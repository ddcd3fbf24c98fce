/**
 * What the sealed client secret of a provider is bound to: the issuer that it was entered for. One that changes must be
 * given the secret again.
 */
export function clientSecretContext(issuerUrl: string): string {
  return `oidc-provider ${issuerUrl} client_secret`
}
