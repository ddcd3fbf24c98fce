import { lookup } from 'node:dns/promises'
import { request as httpRequest } from 'node:http'
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { isRefusedAddress } from '../../http/addresses.ts'
import { codeOf, connectProblem, hostAndPort, printable, resolveProblem } from './words.ts'
import { Problem, type Bounds, type Found } from './steps.ts'

/**
 * The steps of a connection check that talk to others, but for TLS. Each is bounded, and the socket is its caller's to
 * end.
 */

interface Address {
  readonly address: string
  readonly family: number
}

/** Every address of the host, as a sender resolves it. */
export async function resolve(host: string, bounds: Bounds): Promise<Found<readonly Address[]>> {
  const family = isIP(host)
  if (family !== 0 && isRefusedAddress(host)) throw new Problem(refusedProblem(host))
  if (family !== 0) return { detail: `${host} is an address`, value: [{ address: host, family }] }
  const late = `the name ${host} cannot be resolved: the name server does not answer`
  const addresses = await bounds.within<Address[]>(late, (settle, fail) => {
    lookup(host, { all: true }).then(settle, (error: unknown) =>
      fail(new Problem(resolveProblem(host, error))),
    )
  })
  const allowed = addresses.filter(({ address }) => !isRefusedAddress(address))
  if (allowed.length === 0) throw new Problem(refusedProblem(host))
  return { detail: allowed.map(({ address }) => address).join(', '), value: allowed }
}

function refusedProblem(host: string): string {
  return `${host} is a link-local address or a metadata service, to which nothing is ever sent`
}

/** A TCP connection to the first of the addresses that answers. */
export async function connect(
  target: { readonly host: string; readonly port: number; readonly addresses: readonly Address[] },
  bounds: Bounds,
  keep: (socket: Socket) => void,
): Promise<Found<Socket>> {
  const { host, port, addresses } = target
  const to = hostAndPort(host, port)
  const resolved: LookupFunction = (_host, options, callback) => {
    const [first] = addresses
    if (options.all === true || first === undefined) callback(null, [...addresses])
    else callback(null, first.address, first.family)
  }
  const late = `${to} does not answer: a firewall may drop the connection`
  return bounds.within(late, (settle, fail) => {
    const socket = connectTcp({ host, port, lookup: resolved })
    keep(socket)
    socket.on('error', (error) => fail(new Problem(connectProblem(to, error))))
    socket.once('connect', () => {
      const { remoteAddress = host, remotePort = port } = socket
      settle({ detail: `connected to ${hostAndPort(remoteAddress, remotePort)}`, value: socket })
    })
  })
}

/** How a request looks to the server. */
export interface Knock {
  readonly url: URL
  readonly headers: ReadonlyArray<readonly [string, string]>
  /** Whether the headers hold a user name and a password. */
  readonly identified: boolean
}

/** The answers of a server, or a proxy before it, to credentials that it does not take. */
const REFUSALS: ReadonlySet<number> = new Set([401, 403, 407])

/** What a status means for a message that is sent the same way. */
const STATUS_HINTS: Readonly<Record<number, string>> = {
  401: 'it does not accept our user name and password, or demands some',
  403: 'it forbids us the path',
  404: 'it does not know the path, or answers there to messages alone',
  407: 'a proxy demands a user name and password',
  503: 'it is not available now',
}
const SERVER_FAILS = 'it fails at the moment, but speaks HTTP'

/**
 * Asks for the endpoint with GET, which changes nothing and is no message. Any HTTP answer shows that an HTTP server
 * is there: many answer 405, as they take POST alone. But one that refuses our credentials would refuse a message too.
 */
export async function ask(
  socket: Socket,
  { url, headers, identified }: Knock,
  bounds: Bounds,
): Promise<Found<null>> {
  return bounds.within('the server does not answer an HTTP request', (settle, fail) => {
    // A request over a socket that is gone would wait for ever.
    if (socket.destroyed) return fail(answerProblem(null))
    const request = httpRequest({
      createConnection: () => socket,
      method: 'GET',
      path: url.pathname + url.search,
      headers: [['Host', url.host], ...headers, ['Connection', 'close']].flat(),
    })
    request.on('error', (error) => fail(answerProblem(error)))
    request.once('response', (response) => {
      response.on('error', () => undefined)
      const { httpVersion, statusCode = 0, statusMessage = '' } = response
      const line = `HTTP/${httpVersion} ${statusCode} ${printable(statusMessage)}`.trimEnd()
      if (identified && REFUSALS.has(statusCode)) {
        fail(new Problem(`the partner refuses the credentials: the server answers ${line}`))
        return
      }
      const hint = STATUS_HINTS[statusCode] ?? (statusCode >= 500 ? SERVER_FAILS : undefined)
      settle({ detail: `the server answers ${line}${hint === undefined ? '' : `: ${hint}`}`, value: null })
    })
    request.end()
  })
}

/** The code tells the runner whether the failure belongs to TLS. */
function answerProblem(error: unknown): Problem {
  if (codeOf(error).startsWith('HPE_')) {
    return new Problem('the server answers with something that is not HTTP', { cause: error })
  }
  return new Problem('the server closed the connection without an answer', { cause: error })
}
