import t from 'tap'
import { startApi } from '../support/api.ts'
import { ApiClient } from '../support/client.ts'

/** `/docs`: the page of the OpenAPI document. */

t.test('GET /docs', async (t) => {
  const { base } = await startApi(t, { build: 'release' })
  const origin = new URL(base).origin
  const site = ApiClient.bare(origin)
  const page = await site.get('/docs')
  const assets = [...page.text.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, address = '']) => address)

  t.test('is a public page, while the document itself needs a credential', async (t) => {
    t.equal(page.status, 200)
    t.equal(page.headers.get('content-type'), 'text/html; charset=utf-8')
    t.match(page.headers.get('x-request-id'), /^[0-9a-f-]{36}$/)
    t.equal((await ApiClient.bare(base).get('/openapi.yaml')).status, 401)
    t.notMatch(page.text, /openapi: 3/)
    t.equal((await site.ask('HEAD', '/docs')).status, 200)
  })

  t.test('has a policy that lets it load from this server alone, and no inline script', async (t) => {
    const policy = page.headers.get('content-security-policy') ?? ''
    t.match(policy, "default-src 'none'")
    t.match(policy, "script-src 'self'")
    t.match(policy, "connect-src 'self'")
    t.match(policy, "frame-ancestors 'none'")
    t.notMatch(policy, /unsafe|https?:|\*/)
    t.notMatch(page.text, /<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=/i)
    t.notMatch(page.text, /https?:\/\//)
  })

  t.test(
    'says its language, has a heading, landmarks, a way past them and a label for its field',
    async (t) => {
      for (const part of [
        '<html lang="en">',
        '<title>',
        '<h1>',
        '<main id="api"',
        'href="#api"',
        'role="status"',
      ]) {
        t.match(page.text, part)
      }
      t.match(page.text, '<label for="token">')
      t.match(page.text, /<input id="token"[^>]*type="password"[^>]*autocomplete="off"/)
      t.match(page.text, '<noscript>')
    },
  )

  t.test('each of its assets comes from this server, with its type, and is loaded once', async (t) => {
    t.same(assets.toSorted(), [
      'docs/docs.css',
      'docs/docs.js',
      'docs/icon.svg',
      'docs/swagger-ui-bundle.js',
      'docs/swagger-ui.css',
    ])
    const types: Readonly<Record<string, RegExp>> = {
      css: /^text\/css/,
      js: /^text\/javascript/,
      svg: /^image\/svg\+xml/,
    }
    for (const asset of assets) {
      const answer = await site.get(`/${asset}`)
      t.equal(answer.status, 200, asset)
      t.match(answer.headers.get('content-type'), types[asset.split('.').at(-1) ?? ''], asset)
      t.equal(answer.headers.get('x-content-type-options'), 'nosniff')
      t.ok(answer.text.length > 100, asset)
      const headers = { 'if-none-match': answer.headers.get('etag') ?? '' }
      const again = await site.get(`/${asset}`, { headers })
      t.equal(again.status, 304, `${asset} is not sent again`)
      t.equal(again.text, '')
    }
  })

  t.test('its stylesheets load nothing from elsewhere', async (t) => {
    for (const asset of assets.filter((each) => each.endsWith('.css'))) {
      const { text } = await site.get(`/${asset}`)
      t.notMatch(text, /@import|@font-face|url\(["']?(?!["']?data:)/, asset)
    }
  })

  t.test('keeps the token in memory: its script stores nothing', async (t) => {
    const { text } = await site.get('/docs/docs.js')
    t.notMatch(text, /localStorage|sessionStorage|indexedDB|document\.cookie/)
    t.match(text, 'persistAuthorization: false')
  })

  t.test('with a slash it leads to the page, and nothing else is below it', async (t) => {
    const redirect = await fetch(`${origin}/docs/`, { redirect: 'manual' })
    t.equal(redirect.status, 308)
    t.equal(new URL(redirect.headers.get('location') ?? '', `${origin}/docs/`).href, `${origin}/docs`)
    for (const path of [
      '/docs/page.ts',
      '/docs/index.html',
      '/docs/..%2fpage.ts',
      '/docs/swagger-ui.js',
      '/docs/%2e%2e/page.ts',
    ]) {
      t.match(await site.get(path), { status: 404, error: { code: 'NOT_FOUND' } }, path)
    }
    t.equal((await site.ask('POST', '/docs')).status, 404)
  })
})
