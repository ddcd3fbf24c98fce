import { execFileSync } from 'node:child_process'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { plainCommand } from '../../support/processes.ts'
import { TRACKING_DATABASE, trackingFolder, type OpenAs2Site } from './configuration.ts'
import { OPENAS2_JARS } from './installation.ts'

/** What its tracking module writes of each message; the server itself expects the table to be there. */
const COLUMNS = {
  text: 'msg_id prior_msg_id mdn_id direction is_resend sender_id receiver_id status state signature_algorithm encryption_algorithm compression file_name content_type content_transfer_encoding mdn_mode mdn_response state_msg',
  integer: 'resend_count',
  timestamp: 'create_dt update_dt',
} as const

/** Makes the table in which OpenAS2 keeps track of its messages, with the tool of the database that it brings. */
export async function createTrackingDatabase(site: OpenAs2Site): Promise<void> {
  const folder = trackingFolder(site)
  await mkdir(folder, { recursive: true })
  const h2 = (await readdir(OPENAS2_JARS)).find((name) => name.startsWith('h2-'))
  if (h2 === undefined) throw new Error('OpenAS2 was installed without its database')
  const { name, user, password } = TRACKING_DATABASE
  const types = { text: 'varchar', integer: 'integer', timestamp: 'timestamp' } as const
  const columns = Object.entries(types).flatMap(([kind, type]) =>
    COLUMNS[kind as keyof typeof COLUMNS].split(' ').map((column) => `${column} ${type}`),
  )
  const table = `create table msg_metadata (id integer not null auto_increment primary key, ${columns.join(', ')})`
  const sql = `${table}; create unique index msg_id_unique on msg_metadata (msg_id)`
  const login = ['-url', `jdbc:h2:${join(folder, name)}`, '-user', user, '-password', password]
  const shell = ['-cp', join(OPENAS2_JARS, h2), 'org.h2.tools.Shell', ...login, '-sql', sql]
  execFileSync(...plainCommand('java', shell), { stdio: ['ignore', 'ignore', 'inherit'] })
}
