import t from 'tap'
import { startApi } from '../../support/api.ts'

t.test('a notification webhook does not pretend to run: its start says what this version does', async (t) => {
  const { client } = await startApi(t)
  await client.create('/plugins/configs?type=notification-webhook', {
    name: 'hook',
    url: 'https://hooks.example.com/hunter2',
  })
  const answer = await client.post('/services/notification-webhook/hook/start')
  t.equal(answer.status, 500)
  t.match(answer.error, { code: 'START_FAILED', message: /sends no notifications yet/ })
  t.notMatch(answer.text, /hunter2/)
  const { data } = await client.get('/services')
  t.match(data['services'], [
    { name: 'main' },
    { type: 'notification-webhook', name: 'hook', status: 'error', error: answer.error?.message },
  ])
})
