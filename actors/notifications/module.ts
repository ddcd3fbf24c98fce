import { siblingFile, type Module } from '../../runtime/module.ts'
import { notificationWebhookSettings } from './settings.ts'

/** The module `notifications`: tells people of alerts. */
export const notificationsModule: Module<unknown> = {
  name: 'notifications',
  pluginTypes: [
    {
      type: 'notification-webhook',
      role: 'notifier',
      title: 'Notification webhook',
      settings: notificationWebhookSettings,
      secrets: ['url', 'basic_password', 'headers', 'signing_secret'],
      actor: siblingFile(import.meta.url, './webhook'),
    },
  ],
  endpoints: () => [],
  protocolView: null,
}
