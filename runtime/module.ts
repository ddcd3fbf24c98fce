import type { ZodObject, ZodType } from 'zod'
import type { Endpoint } from './endpoint/endpoint.ts'

/** A source takes messages in, a target delivers them, a notifier posts alerts. */
export type PluginRole = 'source' | 'target' | 'notifier'

/**
 * A kind of plugin instance. `settings` holds every property beyond `name` and `enabled`, each with the default
 * of the web form's create page and a description; API, form and OpenAPI document are made from it.
 */
export interface PluginType {
  /** As it stands in paths and configurations: lower case, with hyphens. */
  readonly type: string
  readonly role: PluginRole
  readonly title: string
  readonly settings: ZodObject
  /** Names of properties that are write-only: stored encrypted, never returned. */
  readonly secrets: readonly string[]
  /** The file that runs an instance, inside its thread: its default export is a StartActor. */
  readonly actor: URL
}

/** Turns the facts that a module stored with a message into its entry under `protocols`; null for no entry. */
export type ProtocolView = (facts: unknown) => Readonly<Record<string, unknown>> | null

/** A request that the service sends to whoever the settings name, for the OpenAPI document. */
export interface Webhook {
  readonly name: string
  readonly summary: string
  readonly description: string
  /** One of those that endpoints have. */
  readonly tag: string
  readonly body: { readonly name: string; readonly schema: ZodType }
}

/** What an installed module contributes. `Services` is what its endpoints may call; the composition root provides it. */
export interface Module<Services> {
  readonly name: string
  readonly pluginTypes: readonly PluginType[]
  readonly endpoints: (services: Services) => readonly Endpoint[]
  /** Left out: none. */
  readonly webhooks?: readonly Webhook[]
  /** Null for a module that has nothing to say of a message. */
  readonly protocolView: ProtocolView | null
}

/**
 * The URL of a file beside a module, for a thread to run: `.ts` where the module itself runs from its source, `.js`
 * where it was built.
 */
export function siblingFile(moduleUrl: string, name: string): URL {
  return new URL(name + moduleUrl.slice(moduleUrl.lastIndexOf('.')), moduleUrl)
}
