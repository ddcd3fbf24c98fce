import { endpoint, type Endpoint } from '../../../runtime/endpoint/endpoint.ts'

/** The document of the running server, which includes this endpoint itself. It is made once, for who first asks for it. */
export function openApiEndpoint(describe: () => Promise<string>): Endpoint {
  let document: Promise<Buffer> | null = null
  return endpoint({
    method: 'GET',
    path: '/openapi.yaml',
    operationId: 'getOpenApi',
    summary: 'Get this document',
    description:
      'It is made of the core API and of what each installed module adds, and is the same as long as the process runs.',
    tag: 'Server',
    answer: {
      kind: 'file',
      contentType: 'application/yaml',
      description: 'The OpenAPI document of exactly the endpoints and plugin types of this server.',
    },
    handle: async () => {
      document ??= describe().then((text) => Buffer.from(text))
      return { contentType: 'application/yaml', bytes: await document }
    },
  })
}
