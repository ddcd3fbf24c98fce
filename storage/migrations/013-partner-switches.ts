import { Migration } from '@mikro-orm/migrations'

/** What products of partners differ in, beside the algorithms. The defaults are those of the profile's rules. */
export class PartnerSwitches extends Migration {
  override up(): void {
    this.addSql(`
alter table as2_remote_profile
  add column chunked_transfer            boolean not null default true,
  add column content_transfer_encoding   text not null default 'binary' check (content_transfer_encoding in ('binary', 'base64')),
  add column micalg_format               text not null default 'sha-256' check (micalg_format in ('sha-256', 'sha256')),
  add column oaep_digest                 text not null default 'SHA256' check (oaep_digest in ('SHA1', 'SHA256')),
  add column receipt_signing_algorithm   text not null default 'Auto' check (receipt_signing_algorithm in ('Auto', 'SHA1', 'SHA256', 'SHA384', 'SHA512')),
  add column as2_version                 text not null default '1.3' check (as2_version in ('1.1', '1.2', '1.3')),
  add column send_file_name              boolean not null default true,
  add column accept_expired_certificates boolean not null default false,
  add column tls_verify_host_name        boolean not null default true,
  add constraint as2_remote_profile_tls_trust check (tls_verify_host_name or tls_ca_certificate_id is not null);`)
  }
}
