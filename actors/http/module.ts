import { siblingFile, type Module } from '../../runtime/module.ts'
import { httpPosterSettings } from './settings.ts'

/** The module `http-poster`: sends messages to a URL. */
export const httpPosterModule: Module<unknown> = {
  name: 'http-poster',
  pluginTypes: [
    {
      type: 'http-poster',
      role: 'target',
      title: 'HTTP poster',
      settings: httpPosterSettings,
      secrets: ['http_basic_password', 'http_headers', 'signing_secret'],
      actor: siblingFile(import.meta.url, './poster'),
    },
  ],
  endpoints: () => [],
  protocolView: null,
}
