import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Endpoint, Method } from '../../runtime/endpoint/endpoint.ts'
import { WaybillError } from '../../runtime/errors.ts'
import type { Authenticate } from './caller.ts'

/** What a request is told whose path or method no endpoint has. */

export interface KnownPaths {
  readonly endpoints: readonly Endpoint[]
  /** What the paths of the endpoints stand below. */
  readonly prefix: string
  readonly authenticate: Authenticate
}

export function noSuchPath(): WaybillError {
  return new WaybillError('NOT_FOUND', 'No such path')
}

/**
 * The refusal of a request that has no route. Below the prefix the credential is looked at first: a path tells a
 * stranger nothing.
 */
export async function refusalOf(
  request: FastifyRequest,
  reply: FastifyReply,
  { endpoints, prefix, authenticate }: KnownPaths,
): Promise<WaybillError> {
  const path = request.url.split('?', 1)[0] ?? ''
  if (path !== prefix && !path.startsWith(`${prefix}/`)) return noSuchPath()
  request.caller = await authenticate(request)
  const methods = methodsOf(endpoints, path.slice(prefix.length))
  if (methods.length === 0) return noSuchPath()
  reply.header('allow', methods.join(', '))
  return new WaybillError('METHOD_NOT_ALLOWED', `The path does not take the method ${request.method}`)
}

/** The methods that some endpoint has for a path below the prefix; empty for an unknown path. */
function methodsOf(endpoints: readonly Endpoint[], path: string): readonly (Method | 'HEAD')[] {
  const steps = path.split('/').map(decoded)
  const methods = new Set<Method | 'HEAD'>()
  for (const endpoint of endpoints) {
    if (!matches(endpoint.path.split('/'), steps)) continue
    methods.add(endpoint.method)
    if (endpoint.method === 'GET') methods.add('HEAD')
  }
  return [...methods].toSorted()
}

/** Whether a path has the steps of a template; a parameter in braces stands for one step that is not empty. */
function matches(template: readonly string[], steps: readonly string[]): boolean {
  if (template.length !== steps.length) return false
  return template.every((step, at) => (step.startsWith('{') ? steps[at] !== '' : step === steps[at]))
}

function decoded(step: string): string {
  try {
    return decodeURIComponent(step)
  } catch {
    return step
  }
}
