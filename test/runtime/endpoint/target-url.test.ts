import fc from 'fast-check'
import t from 'tap'
import { refusalOfUrl } from '../../../runtime/endpoint/target-url.ts'

t.test('an http or https URL without a credential is accepted', async (t) => {
  for (const url of [
    'http://localhost:8080',
    'https://example.com/a/b?partner=5&q=token',
    'https://[::1]/',
    'https://example.com/?tokens=1',
  ]) {
    t.equal(refusalOfUrl(url), null, url)
  }
})

t.test('another scheme, no scheme, spaces and fragments are refused', async (t) => {
  for (const url of [
    '',
    'example.com',
    '/path',
    'ftp://example.com',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'http://',
    ' https://example.com',
    'https://example.com/#a',
    'https://exa mple.com',
  ]) {
    t.type(refusalOfUrl(url), 'string', url)
  }
})

t.test('a URL with a credential is refused, however it is written', async () => {
  const names = [
    'token',
    'access_token',
    'api_key',
    'apikey',
    'key',
    'secret',
    'password',
    'passwd',
    'pwd',
    'auth',
    'sig',
    'signature',
    'client_secret',
    'auth-token',
    'X-Api-Key',
    'X-Amz-Signature',
    'jwt',
    'token[]',
  ]
  const inAnyCase = fc.constantFrom(...names).chain((name) => fc.mixedCase(fc.constant(name)))
  fc.assert(
    fc.property(inAnyCase, fc.webQueryParameters(), fc.boolean(), (name, others, encoded) => {
      const written = encoded ? name.replace(/^./, (first) => `%${first.charCodeAt(0).toString(16)}`) : name
      const query = [others, `${written}=x`].filter((part) => part !== '').join('&')
      return refusalOfUrl(`https://example.com/in?${query}`) !== null
    }),
  )
  fc.assert(
    fc.property(fc.webUrl({ authoritySettings: { withUserInfo: true } }), (url) => {
      const { username, password } = new URL(url)
      return (username === '' && password === '') || refusalOfUrl(url) !== null
    }),
  )
})
