/** What the sealed write-only settings of an instance are bound to. */
export function pluginContext(name: string): string {
  return `plugin-configuration ${name} secrets`
}
