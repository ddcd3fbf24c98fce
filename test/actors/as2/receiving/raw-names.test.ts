import t from 'tap'
import { countMessages } from '../../../support/exchanged-messages.ts'
import { startRawSite } from './raw-site.ts'

// Names and identifiers as partners write them.
t.setTimeout(300_000)

const { waybill, acme, answered, isTaken } = await startRawSite(t)

const IDS: readonly string[] = [
  'no-brackets-and-no-host',
  '<with a space@acme>',
  '<"quoted"@[192.0.2.1]>',
  `<${'x'.repeat(980)}@acme>`,
]

for (const id of IDS) {
  void t.test(`the receipt repeats the Message-ID ${id.slice(0, 30)} exactly`, async (t) => {
    await isTaken(t, { headers: { id: `Message-ID: ${id}` } }, id)
    t.equal((await acme.recordsOf(id)).length, 1)
  })
}

void t.test('a Message-ID of 999 characters is refused as such, and the message is kept', async (t) => {
  const before = await countMessages(waybill, 'Refused')
  const { answer } = await answered({ headers: { id: `Message-ID: <${'x'.repeat(997)}>` } })
  t.equal(answer.status, 200)
  t.match(answer.body, 'processed/error: invalid-message-id')
  t.equal(await countMessages(waybill, 'Refused'), before + 1)
})

void t.test('names of every printable character are quoted and unquoted', async (t) => {
  const names = ['a"b\\c d', 'x,#![]<>;y', '"\\"']
  for (const name of names) {
    await acme.profile('acme', { as2id: name })
    const wire = /[ "\\]/.test(name) ? `"${name.replaceAll(/["\\]/g, '\\$&')}"` : name
    const answer = await isTaken(t, { headers: { from: `AS2-From: ${wire}` } })
    t.equal(answer.headers.get('as2-to'), wire)
    t.equal(answer.headers.get('as2-from'), '"GLOBEX AS2"')
    t.match(answer.body, 'Final-Recipient: rfc822; "GLOBEX AS2"')
  }
  await acme.profile('acme', { as2id: 'ACME-AS2' })
})
