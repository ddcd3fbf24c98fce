import { Migration } from '@mikro-orm/migrations'

/** What an upload held, until somebody chooses what of it is imported. */
export class CertificateImports extends Migration {
  override up(): void {
    this.addSql(`
create table certificate_import (
  -- SHA-256 of the import token: the token itself is known to the client alone.
  token_hash bytea primary key check (length(token_hash) = 32),
  -- The certificates and the keys that belong to them, sealed with the secret key as one JSON object.
  material   text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index certificate_import_expiry on certificate_import (expires_at);`)
  }
}
