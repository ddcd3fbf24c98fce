import { mkdir, readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { query } from '../../../storage/postgres/pool.ts'
import { createTestDatabase } from '../../support/database.ts'
import { runScript, temporaryDirectory, until, type Script } from '../../support/processes.ts'
import { routesTo } from '../../storage/exchange/fixture.ts'
import { startPolling } from './polling.ts'

t.setTimeout(600_000)

async function begin(t: Test) {
  const { url, pool, log } = await createTestDatabase(t)
  await routesTo(pool, 'target')
  await query(pool, `insert into organization (name) values ('acme')`)
  await query(pool, `insert into partner (name) values ('globex')`)
  const directory = await temporaryDirectory(t)
  const folder = join(directory, 'base', 'globex')
  await mkdir(folder, { recursive: true })
  let dropped = 0
  return {
    pool,
    folder,
    drop: async (count: number) => {
      for (let index = 0; index < count; index += 1) {
        dropped += 1
        const name = `${String(dropped).padStart(5, '0')}.edi`
        await writeFile(join(folder, `.${name}`), `payload ${dropped}`)
        await rename(join(folder, `.${name}`), join(folder, name))
      }
    },
    names: async () =>
      (await query<{ file_name: string }>(pool, 'select file_name from message order by file_name')).map(
        ({ file_name }) => file_name,
      ),
    expected: () =>
      Array.from({ length: dropped }, (_, index) => `${String(index + 1).padStart(5, '0')}.edi`),
    undispatched: async () => (await query(pool, `select 1 from message where stage = 'accepted'`)).length,
    holder: async () =>
      (await query<{ owner: string }>(pool, 'select owner from lease where until > now()'))[0]?.owner.split(
        '/',
      )[0],
    node: (nodeId: string) => runScript(t, '../actors/file/polling-node.ts', [url, nodeId, directory]),
    here: (nodeId: string, tellCondition: (text: string | null) => void = () => undefined) =>
      startPolling({ databaseUrl: url, nodeId, directory, log, tellCondition }),
    moved: async () => (await readdir(join(directory, 'done', 'globex'))).toSorted(),
  }
}

async function untilSaid(node: Script, text: string): Promise<void> {
  for (let line = await node.line(); line !== text; line = await node.line())
    if (line === undefined) throw new Error(`The node ended before it said "${text}"`)
}

void t.test('of two nodes one polls; the other goes on as soon as it stops', async (t) => {
  const box = await begin(t)
  const one = await box.here('one')
  await box.drop(20)
  await until(async () => (await box.names()).length === 20)
  t.equal(await box.holder(), 'one')
  const conditions: (string | null)[] = []
  const other = await box.here('other', (text) => conditions.push(text))
  t.teardown(() => other.stop())
  await box.drop(20)
  await until(async () => (await box.names()).length === 40)
  await until(() => conditions.at(-1) === 'another node polls this folder')
  await one.stop()
  await box.drop(20)
  await until(async () => (await box.names()).length === 60 && (await box.undispatched()) === 0)
  t.equal(await box.holder(), 'other')
  await until(() => conditions.at(-1) === null)
  t.same(await box.names(), box.expected())
  t.same(await box.moved(), box.expected())
})

void t.test('a node that is killed while it takes files in is followed by the other', async (t) => {
  const box = await begin(t)
  const one = box.node('one')
  await untilSaid(one, 'holds the lease')
  const other = await box.here('other')
  t.teardown(() => other.stop())
  await box.drop(600)
  await until(async () => (await box.names()).length > 0)
  await one.kill('SIGKILL')
  await until(
    async () =>
      (await box.names()).length >= 600 &&
      (await box.undispatched()) === 0 &&
      (await readdir(box.folder)).length === 0,
  )
  t.same(await box.names(), box.expected(), 'each file is one message')
  t.same(await box.moved(), box.expected(), 'and was moved once')
})

void t.test('a node that stood still past its lease and comes back touches nothing', async (t) => {
  const box = await begin(t)
  const one = box.node('one')
  await untilSaid(one, 'holds the lease')
  const other = await box.here('other')
  t.teardown(() => other.stop())
  await box.drop(300)
  await until(async () => (await box.names()).length > 0)
  one.child.kill('SIGSTOP')
  await until(async () => (await box.holder()) === 'other')
  await until(async () => (await box.names()).length >= 300 && (await box.undispatched()) === 0)
  one.child.kill('SIGCONT')
  await untilSaid(one, 'another node has taken the lease')
  await box.drop(100)
  await until(async () => (await box.names()).length >= 400 && (await box.undispatched()) === 0)
  await until(async () => (await readdir(box.folder)).length === 0)
  t.equal(await box.holder(), 'other')
  t.same(await box.names(), box.expected())
  t.same(await box.moved(), box.expected())
})
