import type { SendingChoices } from '../../../storage/profiles/sending-choices.ts'
import { enumerated } from './words.ts'

/** What a request leaves out is chosen for it where there is only one choice; else it is told what there is. */
export type Choice =
  { readonly kind: 'chosen'; readonly name: string } | { readonly kind: 'refused'; readonly refusal: string }

/** The AS2 sender for which something is asked. `narrowed` are those that are tried before all. */
export function chooseSender(
  asked: string | undefined,
  { senders }: SendingChoices,
  narrowed: readonly string[],
): Choice {
  if (asked === undefined) return theOnlyOne(narrowed.length > 0 ? narrowed : senders, 'AS2 sender')
  if (senders.includes(asked)) return { kind: 'chosen', name: asked }
  return { kind: 'refused', refusal: `there is no AS2 sender ${asked}` }
}

/** The organization for which a message goes out by a sender; null while that is not known. */
export function chooseOrganization(
  asked: string | undefined,
  choices: SendingChoices,
  sender: string | null,
): Choice {
  if (asked !== undefined) return { kind: 'chosen', name: asked }
  const named = sender === null ? [] : (choices.routedOrganizations[sender] ?? [])
  return theOnlyOne(named.length > 0 ? named : choices.organizations, 'organization with an AS2 profile')
}

function theOnlyOne(names: readonly string[], noun: string): Choice {
  const [only] = names
  if (only === undefined) return { kind: 'refused', refusal: `there is no ${noun}` }
  if (names.length === 1) return { kind: 'chosen', name: only }
  const refusal = `is required, because there is more than one: ${enumerated(names, ', ')}`
  return { kind: 'refused', refusal }
}
