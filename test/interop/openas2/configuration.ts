import { join } from 'node:path'
import type { ReservedPort } from '../../support/reserved-port.ts'
import { element, ownName, type OpenAs2Partnership } from './partnership.ts'

/** The files and folders of one OpenAS2, and its config.xml. */

export const KEY_STORE_PASSWORD = 'testas2'

export interface OpenAs2Site {
  /** Everything lies below it. */
  readonly directory: string
  /** Takes messages. */
  readonly messages: ReservedPort
  /** Takes asynchronous receipts. */
  readonly receipts: ReservedPort
}

export const configFile = ({ directory }: OpenAs2Site): string => join(directory, 'config.xml')
export const partnershipsFile = ({ directory }: OpenAs2Site): string => join(directory, 'partnerships.xml')
export const keyStoreFile = ({ directory }: OpenAs2Site): string => join(directory, 'certificates.p12')
export const logFile = ({ directory }: OpenAs2Site): string => join(directory, 'openas2.log')
/** The folder and the name of its database, which a server with `tracking` has. */
export const trackingFolder = ({ directory }: OpenAs2Site): string => join(directory, 'tracking')
export const TRACKING_DATABASE = { name: 'openas2', user: 'sa', password: 'OpenAS2' } as const
/** Records of receipts, made and taken. */
export const receiptFolder = ({ directory }: OpenAs2Site): string => join(directory, 'receipts')
export const inbox = ({ directory }: OpenAs2Site, partnership: string): string =>
  join(directory, 'inbox', partnership)
export const outbox = ({ directory }: OpenAs2Site, partnership: string, at: number): string =>
  join(directory, 'outbox', `${partnership}-${at}`)
/** Files that could not be sent. */
export const errorFolder = ({ directory }: OpenAs2Site, partnership: string): string =>
  join(directory, 'errors', partnership)

/** `tracking`: a record of each message in a database, its headers in a file, and a log file, as the distribution has it. */
export function formatConfiguration(
  site: OpenAs2Site,
  partnerships: readonly OpenAs2Partnership[],
  tracking: boolean,
): string {
  const { directory } = site
  const component = (kind: string, name: string, attributes: Readonly<Record<string, string>>): string =>
    element(kind, { classname: `org.openas2.${name}`, ...attributes })
  const modules = [
    ...partnerships.flatMap((each) => pollers(site, each)),
    ...(tracking ? [trackingModule(site)] : []),
    ...fixedModules(site, tracking),
  ]
  return [
    '<openas2>',
    element('properties', { storageBaseDir: directory }),
    component('certificates', 'cert.PKCS12CertificateFactory', {
      filename: keyStoreFile(site),
      password: KEY_STORE_PASSWORD,
    }),
    '<loggers>',
    component('logger', 'logging.ConsoleLogger', { enabled: 'true' }),
    ...(tracking
      ? [component('logger', 'logging.FileLogger', { filename: join(directory, 'logs', 'log.txt') })]
      : []),
    '</loggers>',
    `<processor classname="org.openas2.processor.DefaultProcessor" pendingMDN="${join(directory, 'pending')}" pendingMDNinfo="${join(directory, 'pending-info')}">`,
    ...modules.map(({ name, attributes }) => component('module', `processor.${name}`, attributes)),
    '</processor>',
    component('partnerships', 'partner.XMLPartnershipFactory', { filename: partnershipsFile(site) }),
    '</openas2>',
    '',
  ].join('\n')
}

interface Module {
  readonly name: string
  readonly attributes: Readonly<Record<string, string>>
}

/** Each folder is looked at by a thread of its own; a file is sent when it had the same length twice. */
function pollers(site: OpenAs2Site, partnership: OpenAs2Partnership): Module[] {
  const { name, as2Id, partnerAs2Id, outboxes = 1 } = partnership
  return Array.from({ length: outboxes }, (_, at) => ({
    name: 'receiver.AS2DirectoryPollingModule',
    attributes: {
      outboxdir: outbox(site, name, at),
      errordir: errorFolder(site, ownName(partnership)),
      interval: '1',
      defaults: `sender.as2_id=${as2Id}, receiver.as2_id=${partnerAs2Id}`,
      sendfilename: 'true',
      mimetype: 'application/EDI-X12',
    },
  }))
}

function trackingModule(site: OpenAs2Site): Module {
  const { name, user, password } = TRACKING_DATABASE
  return {
    name: 'msgtracking.DbTrackingModule',
    attributes: {
      use_embedded_db: 'true',
      db_user: user,
      db_pwd: password,
      db_name: name,
      db_directory: trackingFolder(site),
      jdbc_driver: 'org.h2.Driver',
      jdbc_connect_string: 'jdbc:h2:$component.db_directory$/$component.db_name$',
      sql_escape_character: "'",
      tcp_server_start: 'false',
    },
  }
}

function fixedModules(site: OpenAs2Site, tracking: boolean): Module[] {
  const { directory, messages, receipts } = site
  const folder = (name: string): string => join(directory, name)
  const listener = ({ host, port }: ReservedPort) => ({
    address: host,
    port: String(port),
    errordir: folder('refused'),
  })
  const stored = { protocol: 'as2', tempdir: folder('temporary') }
  return [
    { name: 'sender.AS2SenderModule', attributes: {} },
    { name: 'sender.MDNSenderModule', attributes: {} },
    {
      name: 'storage.MessageFileModule',
      attributes: {
        ...stored,
        filename: join(folder('inbox'), '$msg.receiver.name$', '$msg.content-disposition.filename$'),
        ...(tracking ? { header: join(folder('headers'), '$msg.headers.message-id$') } : {}),
      },
    },
    {
      name: 'storage.MDNFileModule',
      attributes: { ...stored, filename: join(receiptFolder(site), '$rand.uuid$') },
    },
    {
      name: 'resender.DirectoryResenderModule',
      attributes: { resenddir: folder('resend'), errordir: folder('resend-errors'), resenddelay: '1' },
    },
    { name: 'receiver.AS2ReceiverModule', attributes: listener(messages) },
    { name: 'receiver.AS2MDNReceiverModule', attributes: listener(receipts) },
  ]
}
