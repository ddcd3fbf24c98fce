/* global SwaggerUIBundle */
'use strict'

/**
 * Shows the OpenAPI document of the server with Swagger UI. The token that the reader enters lives in this closure
 * and in the memory of Swagger UI, nowhere else.
 */
{
  const DOCUMENT = new URL('api/v1/openapi.yaml', document.baseURI).href
  const API = new URL('api/v1', document.baseURI).href
  const state = document.querySelector('#state')
  const form = document.querySelector('#credential')
  const input = document.querySelector('#token')

  const say = (text) => {
    state.textContent = text
  }

  /** What belongs to a request of the document itself and of one that the reader tries. */
  const prepare = (token) => (request) => {
    const headers = (request.headers ??= {})
    if (request.loadSpec) {
      if (token !== '') headers.Authorization = `Bearer ${token}`
      return request
    }
    // The server may be reached under another name than its own, and this page may speak to its own server alone.
    const path = new URL(request.url, document.baseURI)
    const below = path.pathname.indexOf('/api/v1')
    if (below !== -1) request.url = API + path.pathname.slice(below + '/api/v1'.length) + path.search
    // What changes something says that it is JSON, also without a body; an upload says its own type.
    const named = Object.keys(headers).some((name) => name.toLowerCase() === 'content-type')
    if (request.method !== 'GET' && !named && !(request.body instanceof FormData)) {
      headers['Content-Type'] = 'application/json'
    }
    return request
  }

  const show = (token) => {
    form.hidden = true
    say('')
    const ui = SwaggerUIBundle({
      url: DOCUMENT,
      dom_id: '#api',
      deepLinking: true,
      docExpansion: 'list',
      filter: true,
      defaultModelsExpandDepth: 0,
      displayRequestDuration: true,
      persistAuthorization: false,
      queryConfigEnabled: false,
      validatorUrl: null,
      requestInterceptor: prepare(token),
      onComplete: () => {
        if (token !== '') ui.preauthorizeApiKey('apiToken', token)
      },
    })
  }

  /** Asks for the document's headers alone: they tell whether a credential is needed, or not accepted. */
  const open = async (token) => {
    const headers = token === '' ? {} : { Authorization: `Bearer ${token}` }
    try {
      const answer = await fetch(DOCUMENT, { method: 'HEAD', headers })
      if (answer.ok) return show(token)
      if (answer.status !== 401) return say(`The server answered with status ${answer.status}.`)
      say(token === '' ? 'This server asks for a token.' : 'The server did not accept the token.')
      form.hidden = false
      input.value = ''
      input.focus()
    } catch {
      say('The server cannot be reached.')
      form.hidden = false
    }
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault()
    say('Loading the description of this server…')
    void open(input.value.trim())
  })
  void open('')
}
