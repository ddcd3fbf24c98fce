import t, { type Test } from 'tap'
import { systemClock } from '../../../runtime/clock.ts'
import { Announcements } from '../../../storage/exchange/announcements.ts'
import { NotificationListener } from '../../../storage/postgres/listener.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { until } from '../../support/processes.ts'

t.setTimeout(120_000)

/** The announcements of one process. */
function node(t: Test, { url, pool, log }: TestDatabase) {
  const heard: string[] = []
  const counts = { looks: 0 }
  const listener = NotificationListener.start({ url, clock: systemClock, log })
  const announcements = new Announcements({
    pool,
    listener,
    log,
    heard: (target) => heard.push(target),
    look: () => (counts.looks += 1),
  })
  t.teardown(async () => {
    announcements.stop()
    await listener.stop()
  })
  return { heard, counts, announcements }
}

t.test('other nodes hear of deliveries for a target, a few times however many there are', async (t) => {
  const database = await createTestDatabase(t)
  const one = node(t, database)
  const other = node(t, database)
  await until(() => one.counts.looks > 0 && other.counts.looks > 0)
  const begunAt = performance.now()
  for (let message = 0; message < 100_000; message += 1) one.announcements.tell('writer')
  one.announcements.tell('sender')
  await until(
    () => other.heard.includes('sender') && other.heard.filter((name) => name === 'writer').length >= 2,
  )
  const tenths = Math.ceil((performance.now() - begunAt) / 100)
  t.ok(
    other.heard.length <= tenths + 3,
    `${other.heard.length} notifications in ${tenths} tenths of a second`,
  )
  t.same(one.heard, [], 'who says it does not hear it')
})
