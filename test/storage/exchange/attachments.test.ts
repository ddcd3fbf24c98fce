import fc from 'fast-check'
import t from 'tap'
import { isSeveralFiles } from '../../../runtime/mime/attachment.ts'
import { boundaryOf } from '../../../runtime/mime/multipart-scanner.ts'
import { attachmentName, recordedContentType } from '../../../storage/exchange/attachments.ts'

t.test('a content type as records keep it is short, in characters that can be shown', (t) => {
  t.equal(recordedContentType('application/edifact; charset=x'), 'application/edifact; charset=x')
  t.equal(recordedContentType('text/\0plain'), 'text/_plain')
  t.equal(recordedContentType(`text/plain; x=${'y'.repeat(400)}`).length, 255)
  const type = 'multipart/related; type="text/xml"; boundary="=_a b"; start="<a@b>"'
  t.equal(recordedContentType(type), type)
  t.end()
})

t.test('a multipart keeps the boundary, whatever else its content type carries', (t) => {
  const boundaries = fc.string({
    minLength: 1,
    maxLength: 200,
    unit: fc.constantFrom(...Array.from(`abc='()+_,-./:=? "\\ü`)),
  })
  const others = fc.record({
    length: fc.nat(3_000),
    name: fc.constantFrom('name', 'x-partner', 'type', 'start'),
    filler: fc.constantFrom('y', 'ü', '\t'),
  })
  fc.assert(
    fc.property(boundaries, fc.array(others, { maxLength: 5 }), (boundary, parameters) => {
      const quoted = (text: string): string => `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`
      const texts = parameters.map(({ name, length, filler }) => `; ${name}=${quoted(filler.repeat(length))}`)
      const type = `multipart/mixed${texts.join('')}; boundary=${quoted(boundary)}`
      const recorded = recordedContentType(type)
      t.ok(isSeveralFiles(recorded))
      t.equal(boundaryOf(recorded), boundaryOf(type))
      t.ok(recorded.length <= 1_000)
      t.notMatch(recorded, /\p{Cc}/u)
    }),
  )
  t.end()
})

t.test('a file without a usable name is called after the message and its place in it', (t) => {
  const name = (fileName: string | null, contentType = 'Text/CSV; charset=utf-8') =>
    attachmentName({ fileName, contentType }, 2, 'id')
  t.equal(name('C:\\orders\\a.csv'), 'a.csv')
  t.equal(name('../../etc/passwd'), 'passwd')
  for (const none of [null, '', '..', '/', ' ']) t.equal(name(none), 'id-2.csv')
  t.equal(name(null, 'image/png'), 'id-2.bin')
  t.end()
})
