import { isUtf8 } from 'node:buffer'
import fc from 'fast-check'
import t from 'tap'
import { TextCheck } from '../../../../actors/as2/protocol/text.ts'

/** Of characters and octets that are near to text. */
const nearText = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme' }).map((text) => Buffer.from(text)),
      fc.constantFrom('\t', '\r\n', 'é', '€', '😀', '\0', '\x1b', '\x7f').map((text) => Buffer.from(text)),
      fc.uint8Array({ minLength: 1, maxLength: 3 }).map((octets) => Buffer.from(octets)),
    ),
    { maxLength: 6 },
  )
  .map((parts) => Buffer.concat(parts))

t.test('Text is what is UTF-8 without control characters, however it is cut', async (t) => {
  let texts = 0
  fc.assert(
    fc.property(nearText, fc.nat({ max: 8 }), (bytes, cut) => {
      const check = new TextCheck()
      check.write(bytes.subarray(0, cut))
      check.write(bytes.subarray(cut))
      // The longest forms of a character and halves of pairs are no UTF-8, but look like it octet by octet.
      const isText = !/[^\P{Cc}\t\r\n]/u.test(bytes.toString('latin1').replaceAll(/[\x80-\x9f]/g, '?'))
      if (isText && isUtf8(bytes)) {
        texts++
        return check.isText
      }
      return isText || !check.isText
    }),
    { numRuns: 5_000 },
  )
  t.ok(texts > 100)
  for (const [name, octets] of Object.entries({
    'a character too short': [0xe2, 0x82],
    'the second octet of one alone': [0xa9],
    'another character within one': [0xe2, 0x41, 0xac],
    'an octet that begins none': [0xff],
    'a form too long': [0xc0, 0x80],
  })) {
    const check = new TextCheck()
    check.write(Buffer.from(octets))
    check.write(Buffer.from('text behind it'))
    t.notOk(check.isText, name)
  }
})
