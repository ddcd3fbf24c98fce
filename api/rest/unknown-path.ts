import type { Endpoint, Method } from '../../runtime/endpoint/endpoint.ts'

/** The methods that some endpoint has for a path below `/api/v1`; empty for an unknown path. */
export function methodsOf(endpoints: readonly Endpoint[], path: string): readonly (Method | 'HEAD')[] {
  const methods = new Set<Method | 'HEAD'>()
  for (const endpoint of endpoints) {
    if (!matches(endpoint.path, path)) continue
    methods.add(endpoint.method)
    if (endpoint.method === 'GET') methods.add('HEAD')
  }
  return [...methods].toSorted()
}

/** Whether a path has the steps of a template; a parameter in braces stands for one step that is not empty. */
function matches(template: string, path: string): boolean {
  const expected = template.split('/')
  const given = path.split('/')
  if (expected.length !== given.length) return false
  return expected.every((step, at) => (step.startsWith('{') ? given[at] !== '' : step === given[at]))
}
