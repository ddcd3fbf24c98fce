import { constants, createHash, generateKeyPairSync, publicEncrypt, randomBytes } from 'node:crypto'
import t from 'tap'
import { decryptHere, type RsaKey } from '../../../../../actors/as2/protocol/cms/rsa-decryption.ts'
import { decryptBeside } from '../../../../../actors/as2/protocol/cms/rsa-pool.ts'

const { publicKey, privateKey: key } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const { RSA_PKCS1_OAEP_PADDING, RSA_PKCS1_PADDING } = constants
const WAYS: Readonly<Record<string, RsaKey>> = {
  'PKCS #1 v1.5': { key, padding: RSA_PKCS1_PADDING },
  'OAEP with SHA-256': { key, padding: RSA_PKCS1_OAEP_PADDING, oaepHash: 'sha256' },
  'OAEP with a label': {
    key,
    padding: RSA_PKCS1_OAEP_PADDING,
    oaepHash: 'sha1',
    oaepLabel: new Uint8Array([1, 2, 3]),
  },
}

for (const [name, rsa] of Object.entries(WAYS)) {
  t.test(`${name}: a key comes out beside the thread as it does in it`, async (t) => {
    const contentKeys = Array.from({ length: 40 }, () => randomBytes(32))
    await Promise.all(
      contentKeys.map(async (contentKey) => {
        // A view into a larger memory, as what comes out of a message is.
        const message = Buffer.alloc(5_000, 7)
        const encrypted = publicEncrypt({ ...rsa, key: publicKey }, contentKey)
        encrypted.copy(message, 100)
        const found = await decryptBeside(rsa, message.subarray(100, 100 + encrypted.length))
        t.ok(found !== null && contentKey.equals(found))
      }),
    )
  })

  t.test(`${name}: bytes that are no encrypted key give the same beside the thread as in it`, async (t) => {
    const rubbish = [Buffer.alloc(0), Buffer.alloc(3), Buffer.alloc(256), Buffer.alloc(256, 0xff)]
    // Implicit rejection makes the same bytes of the same rubbish.
    rubbish.push(
      Buffer.concat([Buffer.alloc(1), createHash('sha512').update(name).digest(), Buffer.alloc(191)]),
    )
    for (const bytes of rubbish) t.same(await decryptBeside(rsa, bytes), decryptHere(rsa, bytes))
  })
}
