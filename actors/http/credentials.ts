import type { z } from 'zod'

/** Refuses headers that the other settings set. */
export function checkHeaders<H extends string>(
  settings: Readonly<Record<H, readonly { readonly name: string }[]>>,
  context: z.RefinementCtx,
  property: H,
  reserved: readonly string[],
): void {
  for (const [index, { name }] of settings[property].entries()) {
    if (reserved.includes(name.toLowerCase())) {
      const message = 'cannot be set: the service sets it itself'
      context.addIssue({ code: 'custom', path: [property, index, 'name'], message })
    }
  }
}
