import type { JsonObject } from './json.ts'

/** What the document says in words. */

export const OVERVIEW = `Waybill exchanges business messages between the operator's own organizations and business partners.

Every answer in JSON has the envelope \`{data, error}\`: one of them is null. Only the health answer comes without it.

- A request that changes something needs \`Content-Type: application/json\`, also without a body. Uploads take \`multipart/form-data\` and need the header \`X-Requested-With\`.
- A body with an unknown property is refused, so that a misspelt one is never silently a default. Read-only properties that are sent back are ignored: a record can be read, edited and put.
- An update changes only the properties that it sends. A property that is never returned, such as a password, keeps its stored value when it is left out.
- A list answers one page with \`total\`, \`limit\` and \`offset\`.
- Every answer carries \`X-Request-Id\`.

The developer build takes a request without credential as the user \`developer\`.`

/** Properties that mean the same in every schema. */
export const COMMON_PROPERTIES: Readonly<Record<string, string>> = {
  id: 'Assigned by the server.',
  created_at: 'When it was created (RFC 3339).',
  updated_at: 'When it was changed last (RFC 3339).',
  total: 'Records that match the filters, on all pages.',
  limit: 'The largest number of records on the page.',
  offset: 'The number of records before the page.',
}

export const TAGS: Readonly<Record<string, string>> = {
  Organizations: "The operator's own parties.",
  Partners: 'Business partners.',
  Routes: 'Which messages go from which source to which target. A saved route applies to the next message.',
  Certificates: 'X.509 certificates, each stored once, with or without its private key.',
  'AS2 profiles': 'How organizations and partners speak AS2.',
  Plugins: 'Configurations of plugin instances. A change takes effect when the instance restarts.',
  Services: 'The plugin instances that run, and their states.',
  'Identity providers':
    'OpenID Connect providers whose users sign in and whose access tokens are credentials. A change counts from the next sign-in and the next token.',
  'Service accounts':
    'Machine clients: local ones with API tokens, federated ones with the tokens of a provider.',
  'API tokens':
    'Credentials of local service accounts. Each is told once, when it is made, and never changes.',
  Notifications: 'What operators were told of, and what came of it.',
  Settings: 'The settings of the service: where payloads are stored, and how it presents itself.',
  'Audit log':
    'Who has changed what. It only grows; with an audit key, whoever changes it behind the back of the service is found.',
  Messages: 'Messages, their deliveries, history and payloads.',
  Server: 'The server itself.',
}

export const SECURITY_SCHEMES: JsonObject = {
  bearerAuth: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      'A JWT access token of an enabled identity provider, such as the client credentials grant gives, at most 8 KiB. It is checked here: `iss` must equal an issuer URL exactly; the signature (RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 or EdDSA) must be by a key of the provider; `aud` must be or hold the API audience; `exp` is required, without a tolerance; `nbf` is kept; every API scope must stand in `scope` or `scp`. An ID token, one with `nonce`, `at_hash`, `c_hash` or `s_hash`, is no credential. The caller is the user or the federated service account registered for `iss` and `sub`.',
  },
  apiToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'wbl_…',
    description:
      'An API token of a local service account: `wbl_` and 58 letters and digits. A revocation counts from the next request.',
  },
}
