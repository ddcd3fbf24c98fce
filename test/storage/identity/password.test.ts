import { randomBytes, scryptSync } from 'node:crypto'
import t from 'tap'
import { hashPassword, isPassword, refusalOfPassword } from '../../../storage/identity/password.ts'

t.setTimeout(240_000)

t.test('a password is stored as scrypt with its parameters and a salt of its own', async (t) => {
  const password = 'correct horse battery staple'
  const [one, two] = await Promise.all([hashPassword(password), hashPassword(password)])
  t.match(one, /^\$scrypt\$ln=17,r=8,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/)
  t.not(one, two)
  t.equal(await isPassword(password, one), true)
  t.equal(await isPassword(password, two), true)
  t.equal(await isPassword(`${password} `, one), false)
  t.equal(await isPassword('', one), false)
})

t.test('the same characters, however they are written, are the same password', async (t) => {
  const stored = await hashPassword('Passw\u00f6rter \ufb01nden')
  t.equal(await isPassword('Passwo\u0308rter finden', stored), true)
})

t.test('a user without a password is never right, also with what stands for it', async (t) => {
  t.equal(await isPassword('', null), false)
  t.equal(await isPassword('anything at all', null), false)
})

t.test('a stored password carries its own parameters, within bounds', async (t) => {
  const salt = randomBytes(16)
  const hash = scryptSync('password', salt, 32, { N: 2 ** 10, r: 4, p: 2 })
  const base64 = (bytes: Buffer) => bytes.toString('base64').replaceAll('=', '')
  const cheaper = `$scrypt$ln=10,r=4,p=2$${base64(salt)}$${base64(hash)}`
  t.equal(await isPassword('password', cheaper), true)
  t.equal(await isPassword('passwords', cheaper), false)
  await t.rejects(isPassword('x', cheaper.replace('ln=10', 'ln=30')), {
    message: /too much memory/,
  })
  await t.rejects(isPassword('x', 'plain'), { message: /not in the format/ })
})

t.test(
  'a password has 15 to 256 characters, counted as people do, and any but control characters',
  async (t) => {
    t.equal(refusalOfPassword('x'.repeat(15)), null)
    t.equal(refusalOfPassword('🔑'.repeat(256)), null)
    t.match(refusalOfPassword('🔑'.repeat(14)), /at least 15/)
    t.match(refusalOfPassword('x'.repeat(257)), /at most 256/)
    t.match(refusalOfPassword(`${'x'.repeat(20)}\u0007`), /control characters/)
  },
)
