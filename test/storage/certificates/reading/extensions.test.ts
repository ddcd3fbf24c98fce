import t from 'tap'
import { octetString } from '../../../../actors/as2/protocol/asn1/writer.ts'
import { extension, makeCertificate } from '../../../support/certificates.ts'
import { parse } from './reading.ts'

t.test('an extension value of more than 4,000 characters is cut, and says that it is', (t) => {
  const value = (octets: number) => extension('1.2.3.4', false, octetString(Buffer.alloc(octets - 4, 0xab)))
  const made = makeCertificate({
    commonName: 'long',
    keyType: 'ec',
    raw: { extensions: [value(2_000), value(2_001)] },
  })
  const [whole, cut] = parse(made.certificate).certificates[0]?.facts.extensions ?? []
  t.equal(whole?.value, `048207cc${'ab'.repeat(1_996)}`)
  t.equal(cut?.value, `048207cd${'ab'.repeat(1_996)} …`)
  t.end()
})
