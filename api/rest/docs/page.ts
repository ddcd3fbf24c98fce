import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/**
 * `/docs`: the OpenAPI document as a page to read and to try requests on. The page is public and holds nothing of the
 * server; the document needs a credential, which the reader enters and the page keeps in its memory alone. Everything
 * comes from this server: the page works without any other network.
 */

const PAGE = '/docs'

/** Swagger UI as Fastify's own package carries it: without scripts at installation and without telemetry. */
const SWAGGER_UI = new URL('./static/', import.meta.resolve('@fastify/swagger-ui/package.json'))
const OWN = new URL('./assets/', import.meta.url)

interface Asset {
  readonly name: string
  readonly file: URL
  readonly contentType: string
}

const JAVASCRIPT = 'text/javascript; charset=utf-8'
const CSS = 'text/css; charset=utf-8'

const ASSETS: readonly Asset[] = [
  { name: 'swagger-ui.css', file: new URL('swagger-ui.css', SWAGGER_UI), contentType: CSS },
  {
    name: 'swagger-ui-bundle.js',
    file: new URL('swagger-ui-bundle.js', SWAGGER_UI),
    contentType: JAVASCRIPT,
  },
  { name: 'docs.css', file: new URL('docs.css', OWN), contentType: CSS },
  { name: 'docs.js', file: new URL('docs.js', OWN), contentType: JAVASCRIPT },
  { name: 'icon.svg', file: new URL('icon.svg', OWN), contentType: 'image/svg+xml' },
]

/** Swagger UI's stylesheet has its small pictures within itself, as `data:` addresses. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** All addresses are relative, so that the page works below a path of a reverse proxy too. */
const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Waybill API</title>
<link rel="icon" href="docs/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="stylesheet" href="docs/docs.css">
<script src="docs/swagger-ui-bundle.js" defer></script>
<script src="docs/docs.js" defer></script>
</head>
<body>
<a class="skip" href="#api">Skip to the operations</a>
<header class="bar">
<h1>Waybill API</h1>
<p id="state" role="status">Loading the description of this server…</p>
</header>
<form id="credential" class="bar" hidden>
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="off" spellcheck="false" required aria-describedby="hint">
<button type="submit">Show the API</button>
<p id="hint">The description belongs to this server and needs a credential: an API token or a token of an identity provider. It stays in the memory of this page and is gone when the page is closed.</p>
</form>
<noscript><p class="bar">This page needs JavaScript. The document itself is at <code>api/v1/openapi.yaml</code>.</p></noscript>
<main id="api" tabindex="-1"></main>
</body>
</html>
`

export function mountDocs(server: FastifyInstance): void {
  server.get(PAGE, (_request, reply) =>
    reply
      .header('content-security-policy', CONTENT_SECURITY_POLICY)
      .header('cache-control', 'no-cache')
      .type('text/html; charset=utf-8')
      .send(HTML),
  )
  // With a slash at its end every relative address of the page would point elsewhere.
  server.get(`${PAGE}/`, (_request, reply) => reply.redirect(`..${PAGE}`, 308))
  for (const asset of ASSETS) {
    const read = readOnce(asset.file)
    server.get(`${PAGE}/${asset.name}`, (request, reply) => sendAsset(request, reply, asset, read))
  }
}

interface Content {
  readonly bytes: Buffer
  /** A strong validator (RFC 9110 §8.8.3): a page that is opened again loads nothing that it has. */
  readonly etag: string
}

/** The content of a file, read when it is first asked for; a failure is not kept. */
function readOnce(file: URL): () => Promise<Content> {
  let content: Content | undefined
  return async () => {
    if (content !== undefined) return content
    const bytes = await readFile(file)
    const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
    return (content = { bytes, etag })
  }
}

async function sendAsset(
  request: FastifyRequest,
  reply: FastifyReply,
  { contentType }: Asset,
  read: () => Promise<Content>,
): Promise<FastifyReply> {
  const { bytes, etag } = await read()
  reply.header('cache-control', 'no-cache').header('etag', etag)
  if (request.headers['if-none-match'] === etag) return reply.code(304).send()
  return reply.type(contentType).send(bytes)
}
