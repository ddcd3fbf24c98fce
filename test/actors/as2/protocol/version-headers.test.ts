import t from 'tap'
import { versionHeaders } from '../../../../actors/as2/protocol/version-headers.ts'

const FEATURES = ['EDIINT-Features', 'multiple-attachments, AS2-Reliability']

t.test('Each version comes with its own headers', (t) => {
  t.same(versionHeaders('1.3', 'Waybill/0.1.0'), [
    ['AS2-Version', '1.3'],
    FEATURES,
    ['AS2-Product', 'waybill:0.1.0'],
  ])
  t.same(versionHeaders('1.2', 'Waybill/0.1.0'), [['AS2-Version', '1.2'], FEATURES])
  t.same(versionHeaders('1.1', 'Waybill/0.1.0'), [['AS2-Version', '1.1']])
  t.end()
})

t.test('AS2-Product is a plain name and a version', (t) => {
  const productOf = (product: string) => new Map(versionHeaders('1.3', product)).get('AS2-Product')
  t.equal(productOf('Some Product/1.2.3-beta.1'), 'some-product:1.2.3-beta.1')
  t.equal(productOf('as2.example-Connect/4'), 'as2.example-connect:4')
  t.end()
})

t.test('A product that hides its version has no AS2-Product, and so is not of version 1.3', (t) => {
  for (const product of ['Waybill', 'Waybill/', 'Waybill/x', '/1']) {
    t.same(versionHeaders('1.3', product), [['AS2-Version', '1.2'], FEATURES], product)
  }
  t.same(versionHeaders('1.1', 'Waybill'), [['AS2-Version', '1.1']])
  t.end()
})
