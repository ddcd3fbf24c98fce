import { check, constantFrom, integer, property } from 'fast-check'
import t from 'tap'
import { isTokenText, makeToken, readToken, sha256 } from '../../../storage/identity/token-text.ts'

t.test(
  'a token is wbl_, 12 characters of public id and a secret of at least 40, base62 throughout',
  async (t) => {
    const { text, publicId, sha256: digest } = makeToken()
    t.match(text, /^wbl_[0-9A-Za-z]{12}[0-9A-Za-z]{40,}$/)
    t.equal(publicId, text.slice(4, 16))
    t.equal(digest.toString('base64'), sha256(text))
    t.same(readToken(text), { publicId, wellFormed: true })
    t.ok(isTokenText(text))
    t.notOk(isTokenText(`x${text}`))
  },
)

t.test('no two tokens are alike, and every character of the alphabet is used about as often', async (t) => {
  const tokens = Array.from({ length: 2_000 }, () => makeToken().text)
  t.equal(new Set(tokens.map((token) => token.slice(4, 16))).size, tokens.length)
  const counts = new Map<string, number>()
  for (const token of tokens) {
    for (const character of token.slice(4, 56)) counts.set(character, (counts.get(character) ?? 0) + 1)
  }
  t.equal(counts.size, 62)
  // 104,000 characters: 1,677 of each, with a standard deviation of 41.
  for (const [character, count] of counts) t.ok(Math.abs(count - 1_677) < 410, `${character} ${count}`)
})

t.test('one wrong character anywhere does not pass the checksum', async () => {
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  const { text } = makeToken()
  check(
    property(
      integer({ min: 4, max: text.length - 1 }),
      constantFrom(...alphabet.split('')),
      (at, character) => {
        const changed = text.slice(0, at) + character + text.slice(at + 1)
        return readToken(changed).wellFormed === (changed === text)
      },
    ),
    { numRuns: 2_000 },
  )
})

t.test('what is no token is looked up by a public id that nobody has', async (t) => {
  const { text } = makeToken()
  for (const wrong of [
    '',
    'wbl_',
    text.slice(0, -1),
    `${text}0`,
    `${text}\n`,
    text.replace('wbl_', 'WBL_'),
    `${text.slice(0, -1)}-`,
  ])
    t.same(readToken(wrong), { publicId: '000000000000', wellFormed: false })
})
