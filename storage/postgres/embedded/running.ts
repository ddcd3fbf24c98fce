import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { endpointUrl, type Endpoint } from './settings.ts'

/**
 * The address of the embedded PostgreSQL that another process runs in a data directory, for the owner of its records;
 * null while none takes connections. Both its password and its pid file are in the directory.
 */
export async function runningEmbedded(directory: string, owner: string): Promise<string | null> {
  const [pidFile, password] = await Promise.all([
    readFile(join(directory, 'postgresql', 'postmaster.pid'), 'utf8').catch(() => ''),
    readFile(join(directory, 'postgresql.password'), 'utf8').catch(() => ''),
  ])
  // https://www.postgresql.org/docs/current/storage-file-layout.html: port, socket directory, address, and status.
  const [, , , port = '', socketDirectory = '', , , status = ''] = pidFile.split('\n')
  if (status.trim() !== 'ready' || password === '') return null
  const endpoint: Endpoint =
    socketDirectory === ''
      ? { kind: 'loopback', port: Number(port) }
      : { kind: 'socket', directory: socketDirectory }
  return endpointUrl(endpoint, owner, password.trim(), owner)
}
