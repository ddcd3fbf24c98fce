import { childAt, childrenOf, DerError, objectIdentifierOf, type DerElement } from '../der.ts'

/** An AlgorithmIdentifier (RFC 5280 §4.1.1.2). */
export interface Algorithm {
  readonly oid: string
  readonly parameters: DerElement | undefined
}

export function algorithmOf(element: DerElement): Algorithm {
  const parts = childrenOf(element)
  return { oid: objectIdentifierOf(childAt(parts, 0)), parameters: parts[1] }
}

export function parametersOf(algorithm: Algorithm): DerElement {
  if (algorithm.parameters === undefined) throw new DerError('the algorithm has no parameters')
  return algorithm.parameters
}
