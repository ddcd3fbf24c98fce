import { endpoint, type Endpoint } from '../../../runtime/endpoint/endpoint.ts'

/** The document of the running server, which includes this endpoint itself. */
export function openApiEndpoint(document: () => string): Endpoint {
  return endpoint({
    method: 'GET',
    path: '/openapi.yaml',
    operationId: 'getOpenApi',
    summary: 'Get this document',
    description:
      'It is made when the process starts, of the core API and of what each installed module adds.',
    tag: 'Server',
    answer: {
      kind: 'file',
      contentType: 'application/yaml',
      description: 'The OpenAPI document of exactly the endpoints and plugin types of this server.',
    },
    handle: () => ({ contentType: 'application/yaml', bytes: Buffer.from(document()) }),
  })
}
