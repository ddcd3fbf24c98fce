import { siblingFile, type Module } from '../../runtime/module.ts'
import { filePollerSettings, fileWriterSettings } from './settings.ts'

/** The module `file`: takes files in from a folder and puts messages out as files. */
export const fileModule: Module<unknown> = {
  name: 'file',
  pluginTypes: [
    {
      type: 'file-poller',
      role: 'source',
      title: 'File poller',
      settings: filePollerSettings,
      secrets: [],
      actor: siblingFile(import.meta.url, './poller'),
    },
    {
      type: 'file-writer',
      role: 'target',
      title: 'File writer',
      settings: fileWriterSettings,
      secrets: [],
      actor: siblingFile(import.meta.url, './writer'),
    },
  ],
  endpoints: () => [],
  protocolView: null,
}
