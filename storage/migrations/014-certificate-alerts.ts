/**
 * Alerts of certificates that end, by the calendar. What was told is recorded with the alert, so that no restart, other
 * node or later look tells it again. What no notifier takes is not told, and waits for one. Part of 014-alerts.ts.
 */

const TOLD = `
-- What was told of a certificate: that it ends in so many days, or 0: that it has ended.
create table certificate_alert (
  certificate_id integer not null references certificate on delete cascade,
  days           integer not null check (days in (0, 1, 7, 14, 30)),
  raised_at      timestamptz not null default now(),
  primary key (certificate_id, days)
);`

const USES = `
-- Where profiles and enabled plugin instances name certificates. What is kept beside its successor (\`previous_…\`) still
-- verifies and decrypts, yet nothing new depends on it.
create function certificate_uses() returns table (certificate_id integer, is_previous boolean, used_by text)
stable language sql as $$
  select distinct case when reference.id ~ '^[0-9]{1,9}$' then reference.id::integer end, field.key ~ '^previous_',
    case when field.key ~ '^previous_' then 'as the previous certificate of the ' else '' end
      || u.named_by || ' (' || field.key || ')'
  from (
    select 'AS2 profile of the organization ' || one_line(o.name, 128) as named_by, to_jsonb(l) as fields
    from as2_local_profile l join organization o on o.id = l.local_organization_id
    union all
    select 'AS2 profile of the partner ' || one_line(p.name, 128), to_jsonb(r)
    from as2_remote_profile r join partner p on p.id = r.business_partner_id
    union all
    select 'plugin instance ' || c.name || ' (' || c.type || ')', c.settings from plugin_configuration c where c.enabled
  ) u
  cross join lateral jsonb_each(u.fields) field
  cross join lateral jsonb_array_elements_text(
    case jsonb_typeof(field.value) when 'array' then field.value else jsonb_build_array(field.value) end) reference(id)
  where field.key ~ 'certificate_ids?$'
$$;`

const ENDING = `
-- What is to be told now of certificates in use, the most urgent first: each time the tightest of 30, 14, 7, 1 and 0 days
-- that is reached, and none that is not tighter than what was told. The uses are looked up once for all of them.
create function certificates_to_tell(most integer)
returns table (id integer, days integer, severity text, code text, is_previous boolean, used_by text)
stable language sql as $$
  with untold as materialized (
    select c.id, reached.days
    from certificate c
    cross join lateral (
      select min(threshold) as days from unnest(array[0, 1, 7, 14, 30]) threshold
      where c.not_after <= now() + threshold * interval '24 hours'
    ) reached
    where c.not_after <= now() + interval '720 hours'
      and not exists (select from certificate_alert t where t.certificate_id = c.id and t.days <= reached.days)
  ), used as materialized (
    select u.certificate_id, bool_and(u.is_previous) as is_previous, count(*) as uses,
      (array_agg(u.used_by order by u.is_previous, u.used_by))[1:5] as named
    from certificate_uses() u where u.certificate_id in (select id from untold) group by u.certificate_id
  ), worded as materialized (
    select untold.id, untold.days,
      case when used.is_previous or untold.days > 7 then 'warning' else 'critical' end as severity,
      case untold.days when 0 then 'certificate_expired' else 'certificate_expiring' end as code,
      used.is_previous,
      array_to_string(used.named, e'\\n  ')
        || case when used.uses > 5 then e'\\n  and ' || used.uses - 5 || ' more' else '' end as used_by
    from untold join used on used.certificate_id = untold.id
  )
  select w.* from worded w join certificate c on c.id = w.id
  where exists (select from notifiers_of(w.severity, w.code))
  order by c.not_after, c.id limit most
$$;`

const RAISE = `
-- How far away the end of a certificate is.
create function expiry_in_words(days integer, not_after timestamptz) returns text stable language sql
return case days
  when 0 then 'has expired'
  when 1 then 'expires in ' || case when not_after <= now() + interval '1 hour' then 'less than an hour'
    else ceil(extract(epoch from not_after - now()) / 3600) || ' hours' end
  else 'expires in ' || ceil(extract(epoch from not_after - now()) / 86400) || ' days' end;

-- Raises so many alerts of certificates at most. Answers how many, and null on a node that does not hold the clock. What
-- was told by a clock that went ahead, and is far off again, is forgotten first: its time will come.
create function raise_certificate_alerts(node text, most integer) returns integer language plpgsql as $$
declare
  told   record;
  called text;
  raised integer := 0;
begin
  if (select holder from exchange_clock) is distinct from node then return null; end if;
  perform pg_advisory_xact_lock(hashtextextended('certificate alerts', 0));
  delete from certificate_alert t using certificate c
  where c.id = t.certificate_id and c.not_after > now() + (t.days + 1) * interval '24 hours';
  for told in
    select t.*, c.common_name, c.subject, c.serial_number, c.not_after, c.fingerprint_sha256
    from certificates_to_tell(most) t join certificate c on c.id = t.id
    order by c.not_after, c.id
  loop
    insert into certificate_alert (certificate_id, days) values (told.id, told.days);
    called := coalesce(nullif(told.common_name, ''), '#' || told.id);
    perform raise_alert(told.severity, told.code, 'certificate', told.id::text, called,
      'The certificate ' || shortened(one_line(called, 300), 80) || case when told.is_previous then ', kept as a previous one,' else '' end
        || ' ' || expiry_in_words(told.days, told.not_after)
        || ' (' || to_char(told.not_after at time zone 'utc', 'YYYY-MM-DD HH24:MI') || ' UTC)',
      concat_ws(e'\\n',
        'Valid until: ' || to_char(told.not_after at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        'Subject: ' || one_line(told.subject, 400),
        'Serial number: ' || one_line(told.serial_number, 100),
        'SHA-256 fingerprint: ' || told.fingerprint_sha256,
        e'Used by:\\n  ' || told.used_by),
      case told.days when 0 then told.id::text else told.id || '/' || told.days end,
      '/api/v1/certificates/' || told.id);
    raised := raised + 1;
  end loop;
  return raised;
end $$;`

/** Needs \`raise_alert\` and \`notifiers_of\`. */
export const CERTIFICATE_ALERTS: readonly string[] = [TOLD, USES, ENDING, RAISE]
