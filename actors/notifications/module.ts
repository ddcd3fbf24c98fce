import { siblingFile, type Module } from '../../runtime/module.ts'
import { alertPost } from './formats/generic.ts'
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
  webhooks: [
    {
      name: 'alert',
      summary: 'Take an alert',
      description:
        'What a `notification-webhook` with the format `generic` posts: one alert, several that share a post, or a test. The header `webhook-id` is the same in each repeat of a post; with a `signing_secret` the post is signed as Standard Webhooks has it.',
      tag: 'Notifications',
      body: { name: 'AlertPost', schema: alertPost },
    },
  ],
  protocolView: null,
}
