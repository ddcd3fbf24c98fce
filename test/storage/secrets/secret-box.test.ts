import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { SecretBox } from '../../../storage/secrets/secret-box.ts'

const KEY = 'a key that is only for tests'

void t.test('what is sealed opens with the same key and context, in any box of that key', async () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }),
      fc.string(),
      fc.string({ minLength: 16 }),
      (secret, context, key) => {
        const opened = new SecretBox(key).openText(new SecretBox(key).seal(secret, context), context)
        return opened === secret.toWellFormed()
      },
    ),
  )
  fc.assert(
    fc.property(fc.uint8Array(), (secret) => {
      const box = new SecretBox(KEY)
      return box.open(box.seal(secret, 'certificate 7'), 'certificate 7').equals(secret)
    }),
  )
})

void t.test(
  'a sealed value names its key and version, hides its content and is never the same twice',
  async (t) => {
    const box = new SecretBox(KEY)
    const sealed = box.seal('hidden', 'context')
    t.match(sealed, new RegExp(`^v1:${box.keyId}:[A-Za-z0-9+/]+=*$`))
    t.not(sealed, box.seal('hidden', 'context'))
    t.notOk(Buffer.from(sealed.split(':')[2] ?? '', 'base64').includes('hidden'))
    t.not(box.keyId, new SecretBox(`${KEY}.`).keyId)
  },
)

void t.test('any changed bit is noticed', async () => {
  const box = new SecretBox(KEY)
  const [version, keyId, text = ''] = box.seal('hidden', 'context').split(':')
  const bytes = Buffer.from(text, 'base64')
  fc.assert(
    fc.property(fc.nat(bytes.length * 8 - 1), (bit) => {
      const changed = Buffer.from(bytes)
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      try {
        box.open([version, keyId, changed.toString('base64')].join(':'), 'context')
        return false
      } catch (thrown) {
        return thrown instanceof Error && thrown.name === 'StorageError'
      }
    }),
  )
})

void t.test('a value does not open in another place, with another key or when it is none', async (t) => {
  const box = new SecretBox(KEY)
  const sealed = box.seal('hidden', 'certificate 7 private_key')
  const failure = (message: RegExp) => ({ name: 'StorageError', message })
  t.throws(() => box.open(sealed, 'certificate 8 private_key'), failure(/damaged or belongs elsewhere/))
  const other = new SecretBox('another key for the tests')
  t.throws(
    () => other.open(sealed, 'certificate 7 private_key'),
    failure(new RegExp(`sealed with the secret key ${box.keyId}, the present one is ${other.keyId}`)),
  )
  for (const text of ['', 'hidden', 'v1:12345678:', 'v2:12345678:AAAA', `${sealed}!`]) {
    t.throws(() => box.open(text, 'context'), failure(/not a sealed value/))
  }
  const short = `v1:${box.keyId}:${randomBytes(27).toString('base64')}`
  t.throws(() => box.open(short, 'context'), failure(/damaged/))
})
