import { once } from 'node:events'
import t from 'tap'
import { answersIn, everything, exchange, openConnection } from '../../../support/raw-http.ts'
import { BODY, startRawSite, type RawWishes } from './raw-site.ts'

// HTTP as partners write it.
t.setTimeout(300_000)

const { acme, url, request, answered, isTaken } = await startRawSite(t)
const { host, pathname } = new URL(url)

const chunked = (body: string): RawWishes => ({
  headers: { length: 'Transfer-Encoding: chunked' },
  body,
})

const TAKEN: Readonly<Record<string, RawWishes>> = {
  'as the standard has it': {},
  'with the names of headers in other cases': {
    headers: { from: 'as2-FROM: ACME-AS2', receipt: 'DISPOSITION-NOTIFICATION-TO: x' },
  },
  'without space behind the colon, and with a tab': {
    headers: { from: 'AS2-From:ACME-AS2', type: 'Content-Type:\tapplication/edifact' },
  },
  'with folded headers': {
    headers: {
      type: 'Content-Type: application/edifact;\r\n\tcharset=utf-8;\r\n name="a.edi"',
      options: 'Disposition-Notification-Options:\r\n signed-receipt-micalg=optional,\r\n\tsha-256',
    },
  },
  'with parameters without spaces': {
    headers: { options: 'Disposition-Notification-Options: signed-receipt-micalg=optional,SHA256,sha1;x=y' },
  },
  'that asks for the MIC in MD5 first, in SHA-256 second': {
    headers: { options: 'Disposition-Notification-Options: signed-receipt-micalg=optional, md5, sha-256' },
  },
  'with a name in quotes that needs none': { headers: { from: 'AS2-From: "ACME-AS2"' } },
  'with leading zeros in Content-Length': { headers: { length: `Content-Length: 000${BODY.length}` } },
  'in chunks': chunked(`a\r\n${BODY}\r\n0\r\n\r\n`),
  'in chunks with leading zeros and extensions': chunked(
    `0000004;a=b;c="d"\r\nUNA:\r\n00006;x\r\n plain\r\n000\r\n\r\n`,
  ),
  'in chunks with spaces behind their sizes': chunked(`a  \r\n${BODY}\r\n0\r\n\r\n`),
  'in chunks with a trailer': chunked(`a\r\n${BODY}\r\n0\r\nX-Sum: 1\r\n\r\n`),
  'with lines that end in LF alone': { eol: '\n' },
  'without Subject, Date and AS2-Version, as none of them is needed': {},
  'with rubbish for Authorization': { headers: { extra: 'Authorization: \x01 ,,="' } },
  'with Authorization of no known scheme': { headers: { extra: 'Authorization: Basic !!!' } },
  'over HTTP 1.0, without Host': { headers: { host: null }, version: '1.0' },
  'with a Subject that no record could hold': {
    headers: { extra: 'Subject: =?utf-8?B?AGEA?= \xff' },
  },
}

for (const [name, wishes] of Object.entries(TAKEN)) {
  void t.test(`a message ${name} is taken`, async (t) => {
    await isTaken(t, wishes)
  })
}

void t.test(
  'where a request ends must not be open: both lengths, or a foreign coding, are refused',
  async (t) => {
    const extra = `Content-Length: ${BODY.length}`
    const both = await answered({
      ...chunked('a\r\nUNA: plain\r\n0\r\n\r\n'),
      headers: { length: 'Transfer-Encoding: chunked', extra },
    })
    t.equal(both.answer.status, 400)
    t.equal(both.answer.headers.get('connection'), 'close')
    const foreign = await answered({
      headers: { length: 'Transfer-Encoding: gzip, chunked' },
      body: 'a\r\nUNA: plain\r\n0\r\n\r\n',
    })
    t.equal(foreign.answer.status, 400)
    t.same(await acme.recordsOf(both.id), [])
  },
)

const OPEN_TO_OTHER_READINGS: Readonly<Record<string, RawWishes>> = {
  'a space before the colon of Content-Length': { headers: { length: `Content-Length : ${BODY.length}` } },
  'a space before the colon of Transfer-Encoding': {
    headers: { length: 'Transfer-Encoding : chunked' },
    body: `a\r\n${BODY}\r\n0\r\n\r\n`,
  },
  'a space before the colon of AS2-From': { headers: { from: 'AS2-From : ACME-AS2' } },
  'a tab before the colon of a header': { headers: { extra: 'Subject\t: a' } },
  'a NUL in its Subject': { headers: { extra: 'Subject: a\0b' } },
  'a NUL in its Content-Type': { headers: { type: 'Content-Type: application/edi\0fact' } },
  'a NUL in the name of a header': { headers: { extra: 'Sub\0ject: a' } },
}

for (const [what, wishes] of Object.entries(OPEN_TO_OTHER_READINGS)) {
  void t.test(`a request with ${what} is refused, as RFC 9112 and RFC 9110 demand it`, async (t) => {
    const { id, answer } = await answered(wishes)
    t.equal(answer.status, 400)
    t.equal(answer.headers.get('connection'), 'close')
    t.same(await acme.recordsOf(id), [])
  })
}

void t.test('the target of a request may be in absolute-form, as proxies get it', async (t) => {
  for (const target of [url, `HTTP://other.example${pathname}?a=b`]) {
    const { id, text } = request()
    const [answer] = await exchange(url, text.replace(` ${pathname} `, ` ${target} `))
    t.equal(answer?.status, 200, target)
    t.equal((await acme.recordsOf(id)).length, 1)
  }
  const [elsewhere] = await exchange(url, request().text.replace(` ${pathname} `, ` ${url}/other `))
  t.equal(elsewhere?.status, 404)
})

void t.test('a message with a Content-Encoding is refused: what it holds would be no document', async (t) => {
  for (const coding of ['gzip', 'br', 'identity, deflate', 'unheard-of']) {
    const { id, answer } = await answered({ headers: { extra: `Content-Encoding: ${coding}` } })
    t.equal(answer.status, 415, coding)
    t.equal(answer.headers.get('accept-encoding'), 'identity')
    t.same(await acme.recordsOf(id), [])
  }
  await isTaken(t, { headers: { extra: 'Content-Encoding: Identity' } })
})

void t.test('HEAD answers 200 with length 0, and the connection goes on', async (t) => {
  const { text } = request()
  const head = `HEAD ${pathname} HTTP/1.1\r\nHost: ${host}\r\n\r\n`
  const [first, second] = await exchange(url, head + text)
  t.equal(first?.status, 200)
  t.equal(first?.headers.get('content-length'), '0')
  t.equal(second?.status, 200)
})

void t.test('Expect: 100-continue is answered before the body comes', async (t) => {
  const { text } = request({ headers: { extra: 'Expect: 100-continue' } })
  const end = text.indexOf('\r\n\r\n') + 4
  const socket = await openConnection(url)
  t.teardown(() => socket.destroy())
  socket.write(text.slice(0, end))
  const [first] = (await once(socket, 'data')) as [Buffer]
  t.match(first.toString(), /^HTTP\/1\.1 100 Continue\r\n\r\n$/)
  socket.write(text.slice(end))
  const [answer] = answersIn(await everything(socket))
  t.equal(answer?.status, 200)
})
