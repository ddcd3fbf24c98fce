import { endTestServer } from './database-server.ts'

/** What tap runs at the end of a run (`after` in .taprc): nothing of the tests stays behind. */
await endTestServer()
