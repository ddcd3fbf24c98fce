import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import {
  integer,
  objectIdentifier,
  octetString,
  sequence,
} from '../../../../actors/as2/protocol/asn1/writer.ts'
import { singleOf } from '../../../../storage/certificates/reading/material.ts'
import { makeCertificate, type TestCertificate } from '../../../support/certificates.ts'
import { pemOf } from '../../../support/pem.ts'
import { bag, writePkcs12 } from '../../../support/pkcs12.ts'
import { ATTRIBUTE_CERTIFICATE, writePkcs7 } from '../../../support/pkcs7.ts'
import { holdsPair, parse, refusalOf } from './reading.ts'

const one = makeCertificate({ commonName: 'one', keyType: 'ec' })
const two = makeCertificate({ commonName: 'two' })
const three = makeCertificate({ commonName: 'three', keyType: 'ed25519' })
const pemsOf = (...made: TestCertificate[]) => made.map(({ certificatePem }) => certificatePem).join('')
const keysOf = (...made: TestCertificate[]) => made.map(({ privateKeyPem }) => privateKeyPem).join('')

t.test('each key is paired with its certificate, in any order', async (t) => {
  const found = parse(keysOf(three, one) + pemsOf(one, two, three))
  t.match(
    found.certificates.map(({ facts, keyIndex }) => [facts.common_name, keyIndex]),
    [
      ['one', 1],
      ['two', null],
      ['three', 0],
    ],
  )
  t.same(
    found.keys.map(({ algorithm, certificateIndex }) => [algorithm, certificateIndex]),
    [
      ['Ed25519', 2],
      ['EC', 0],
    ],
  )
  t.equal(singleOf(found), null)
})

t.test('a renewed certificate has the key of the one before', async (t) => {
  const renewed = makeCertificate({ commonName: 'one', keyType: 'ec', key: one })
  const { certificates, keys } = parse(pemsOf(one, renewed) + keysOf(one))
  t.same(
    certificates.map(({ keyIndex }) => keyIndex),
    [0, 0],
  )
  t.same(
    keys.map(({ certificateIndex }) => certificateIndex),
    [0],
  )
})

t.test('what occurs several times counts once', async (t) => {
  const text = pemsOf(one, one, one) + keysOf(one, one)
  const found = parse(text, { privateKey: one.privateKeyPem })
  t.ok(holdsPair(found, one))
  t.same(found.notes, [])
  t.equal(singleOf(found), found.certificates[0])
})

t.test('a key that was uploaded for a certificate must belong to it', async (t) => {
  const single = { private_key: 'the private key does not belong to the certificate' }
  t.same(refusalOf(pemsOf(one), { privateKey: two.privateKeyPem }), single)
  t.same(refusalOf(pemsOf(one) + keysOf(two)), single, 'in one file')
  t.same(refusalOf(pemsOf(one) + keysOf(one), { privateKey: two.privateKeyPem }), single, 'beside its own')
  t.same(refusalOf(pemsOf(one, two), { privateKey: three.privateKeyPem }), {
    private_key: 'the private key belongs to none of the certificates',
  })
  const pkcs12 = writePkcs12({ certificates: [one], keysOf: [two], password: '' })
  t.same(refusalOf(pkcs12), single, 'in a PKCS#12 file')
})

t.test('a key whose secret part is damaged does not belong to its certificate', async (t) => {
  const jwk = two.privateKey.export({ format: 'jwk' })
  const other = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })
  const mixed = createPrivateKey({ format: 'jwk', key: Object.assign(other, { n: jwk.n, e: jwk.e }) })
  const privateKey = mixed.export({ format: 'der', type: 'pkcs8' })
  t.match(refusalOf(pemsOf(two), { privateKey }), { private_key: /does not belong/ })
})

t.test('a key without a certificate in a bundle is told, and the others are paired', async (t) => {
  const found = parse(pemsOf(one, two) + keysOf(two, three))
  t.same(
    found.keys.map(({ certificateIndex }) => certificateIndex),
    [1, null],
  )
  t.match(found.notes, [/^Without a certificate among these, and not imported: private key 1\.$/])
  const more = parse(pemsOf(one) + keysOf(one, three))
  t.equal(singleOf(more), null, 'a second key makes a choice necessary')
  t.match(more.notes, [/private key 1\./])
})

t.test('a key alone is found, and is told what to do with it', async (t) => {
  const found = parse(one.privateKeyPem)
  t.match(found, { certificates: [], keys: [{ algorithm: 'EC', size: 256, certificateIndex: null }] })
  t.match(found.notes, [/no certificate, so that nothing can be imported/])
})

t.test('the certificates of authorities are told', async (t) => {
  const root = makeCertificate({ commonName: 'Root', keyType: 'ec', authority: true })
  const issuing = makeCertificate({ commonName: 'Issuing', keyType: 'ec', authority: true, issuer: root })
  const leaf = makeCertificate({ commonName: 'leaf', issuer: issuing })
  const { notes, certificates } = parse(
    writePkcs12({ certificates: [leaf, issuing, root], keysOf: [leaf], password: '' }),
  )
  t.equal(certificates.length, 3)
  t.match(notes, [/^Of an authority that issued others among these, and seldom needed: certificate 1, 2\.$/])
  t.same(parse(root.certificatePem).notes, [], 'one alone is what is wanted')
})

t.test('what is neither certificate nor key is ignored and told', async (t) => {
  const publicKey = one.publicKey.export({ format: 'pem', type: 'spki' }).toString()
  const parameters = pemOf('DH PARAMETERS', Buffer.from([0x30, 0x00]))
  const found = parse(publicKey + pemsOf(one) + parameters + keysOf(one))
  t.ok(holdsPair(found, one))
  t.equal(singleOf(found), found.certificates[0], 'nothing has to be chosen')
  t.match(found.notes, [/public key was ignored/, /DH PARAMETERS was ignored/])
  t.match(parse(Buffer.concat([one.certificate, Buffer.from('rubbish')])).notes, [/^7 bytes at the end/])
  t.match(parse(writePkcs7([one], [ATTRIBUTE_CERTIFICATE])).notes, [/Attribute certificates were ignored/])
  const secret = bag(
    '1.2.840.113549.1.12.10.1.5',
    sequence(objectIdentifier('1.2.3'), octetString(Buffer.alloc(3))),
  )
  t.match(parse(writePkcs12({ certificates: [one], password: '', bags: [secret] })).notes, [/were ignored/])
})

t.test('one that cannot be used is left out and told, and the others are found', async (t) => {
  const damaged = pemOf('CERTIFICATE', one.certificate.subarray(0, 100))
  const ed448 = generateKeyPairSync('ed448').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
  const found = parse(damaged + pemsOf(one) + ed448)
  t.equal(found.certificates.length, 1)
  t.match(found.notes, [
    /^A certificate was left out: it is damaged\.$/,
    /^A private key was left out: its key algorithm ed448 is not supported\.$/,
  ])
  t.equal(singleOf(found), null, 'somebody should look at it')
  t.match(refusalOf(damaged), { certificate: 'the certificate in the file cannot be used: it is damaged' })
  t.match(refusalOf(pemsOf(one), { privateKey: ed448 }), { private_key: /cannot be used: .*ed448/ })
  const dsa = pemOf('DSA PRIVATE KEY', Buffer.from([0x30, 0x03, 0x02, 0x01, 0x00]))
  t.match(refusalOf(dsa), { certificate: /DSA PRIVATE KEY is damaged or not supported/ })
})

t.test('a key file may hold its certificate too, which counts nothing there', async (t) => {
  const found = parse(pemsOf(one), { privateKey: pemsOf(two) + keysOf(one) })
  t.ok(holdsPair(found, one))
  t.match(found.notes, [/Certificates beside the private key were ignored/])
})

t.test('what an upload may hold is bounded', async (t) => {
  const many = (count: number) =>
    Array.from({ length: count }, (_, at) =>
      makeCertificate({
        commonName: 'many',
        keyType: 'ec',
        key: one,
        raw: { serialNumber: integer(at + 1) },
      }),
    )
  t.equal(parse(pemsOf(...many(500))).certificates.length, 500)
  t.match(refusalOf(pemsOf(...many(501))), { certificate: /more than 500 certificates/ })
  const keys = Array.from({ length: 51 }, () =>
    generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
  )
  t.equal(parse(keys.slice(1).join('')).keys.length, 50)
  t.match(refusalOf(keys.join('')), { certificate: /more than 50 private keys/ })
  t.match(refusalOf(pemsOf(one), { privateKey: keys.join('') }), { private_key: /more than 50 private keys/ })
})
