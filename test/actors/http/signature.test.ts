import fc from 'fast-check'
import t from 'tap'
import { signatureOf, signingKey, signingSecret } from '../../../actors/http/signature.ts'

async function* chunks(...parts: readonly string[]): AsyncGenerator<Buffer> {
  for (const part of parts) yield Buffer.from(part)
}

t.test('a post is signed as Standard Webhooks has it', async (t) => {
  // The example of the specification's reference implementations.
  const signed = {
    key: signingKey('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'),
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestamp: 1_614_265_330,
  }
  const signature = 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
  t.equal(await signatureOf({ ...signed, body: chunks('{"test": 2432232314}') }), signature)
  t.equal(await signatureOf({ ...signed, body: chunks('{"test": ', '', '2432232314', '}') }), signature)
  t.not(await signatureOf({ ...signed, body: chunks('{"test": 2432232315}') }), signature)
})

t.test('the key of a secret without prefix is its own bytes', async (t) => {
  t.same(signingKey('whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX'), Buffer.from([...Array(24).keys()]))
  t.same(signingKey('pass phrase ü'), Buffer.from('pass phrase ü'))
})

const isSecret = (text: string): boolean => signingSecret.safeParse(text).success

t.test('a secret is empty, a key in base64 after whsec_, or a text of 8 characters', async (t) => {
  t.equal(signingSecret.parse(undefined), '')
  t.ok(isSecret(''))
  t.ok(isSecret('12345678'))
  t.notOk(isSecret('1234567'))
  t.notOk(isSecret('1234567\n'))
  t.notOk(isSecret('x'.repeat(257)))
  for (const text of [
    '',
    'short',
    'not base64 at all, but long enough',
    `${'A'.repeat(31)}=A`,
    'A'.repeat(33),
  ])
    t.notOk(isSecret(`whsec_${text}`), text)
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 0, maxLength: 80 }), (key) => {
      const fits = key.length >= 24 && key.length <= 64
      const text = `whsec_${Buffer.from(key).toString('base64')}`
      return isSecret(text) === fits && (!fits || signingKey(text).equals(Buffer.from(key)))
    }),
  )
})
