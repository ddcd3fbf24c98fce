import type { Dice } from './dice.ts'
import { mutateBytes } from './mutate-bytes.ts'
import type { Seed } from './seeds.ts'

const NAMES = [
  'AS2-From',
  'AS2-To',
  'Message-ID',
  'Content-Type',
  'Content-Transfer-Encoding',
  'Content-Disposition',
  'Disposition-Notification-To',
  'Disposition-Notification-Options',
  'Receipt-Delivery-Option',
  'Subject',
  'Disposition',
  'Received-content-MIC',
  'Original-Message-ID',
]

const VALUES = [
  '',
  ' ',
  '"',
  '"unclosed',
  '\\"\\',
  '"a\\\\b\\"c"',
  'multipart/signed; boundary=b',
  'multipart/signed; protocol="application/pkcs7-signature"; micalg=md5; boundary="=_"',
  'multipart/report; report-type=disposition-notification; boundary=""',
  `multipart/related; boundary="${'b'.repeat(71)}"; start="<x>"`,
  'application/pkcs7-mime; smime-type=enveloped-data',
  'application/x-pkcs7-mime',
  'base64',
  'quoted-printable',
  'BINARY ',
  'attachment; filename="../../etc/passwd"',
  "attachment; filename*=utf-8''%",
  "attachment; filename*0*=x''a; filename*1=b; filename*99999=c",
  '=?utf-8?B?====?=',
  '=?iso-8859-1?q?=FF=?= =?x?y?z?=',
  'signed-receipt-protocol=required, x; signed-receipt-micalg=required, ,,sha-999',
  'automatic-action/MDN-sent-automatically; processed/',
  'AAAA, sha-256',
  'a\tb',
  'x'.repeat(2_000),
  ';'.repeat(500),
  '; a=b'.repeat(300),
  '('.repeat(500),
]

const BREAKS = ['\r\n', '\n', '\r', '\r\n\r\n', '\r\n ', '\r\n\t', '']

/** Changes headers of the message itself. */
export function mutateHeaders({ headers, body }: Seed, dice: Dice): Seed {
  const changed = headers.map(([name, value]): [string, string] => [name, value])
  const at = dice.below(changed.length)
  const field = changed[at] ?? ['', '']
  switch (dice.below(6)) {
    case 0:
      changed.splice(at, 1)
      break
    case 1:
      changed.splice(at, 0, [dice.one(NAMES), dice.one(VALUES)])
      break
    case 2:
      changed[at] = [field[0], dice.one(VALUES)]
      break
    case 3:
      changed[at] = [
        dice.once(2) ? field[0].toUpperCase() : dice.one(NAMES),
        spliced(field[1], dice.one(VALUES), dice),
      ]
      break
    case 4:
      changed[at] = [field[0], mutateBytes(Buffer.from(field[1], 'latin1'), dice).toString('latin1')]
      break
    default:
      changed.push(...changed.slice(at))
  }
  return { headers: changed, body }
}

/** Changes lines of MIME: what is not text goes through unharmed, as latin1. */
export function mutateLines(bytes: Buffer, dice: Dice): Buffer {
  const lines = bytes.toString('latin1').split('\r\n')
  const at = dice.below(lines.length)
  const line = lines[at] ?? ''
  switch (dice.below(8)) {
    case 0:
      lines.splice(at, 1)
      break
    case 1:
      lines.splice(at, 0, line)
      break
    case 2:
      lines.splice(at, 0, `${dice.one(NAMES)}: ${dice.one(VALUES)}`)
      break
    case 3:
      lines[at] = spliced(line, dice.one(VALUES), dice)
      break
    case 4:
      lines[at] = line.startsWith('--') ? `${line}${dice.one(['--', ' ', 'x', '\t', '-'])}` : `--${line}`
      break
    case 5:
      lines.splice(at, 0, ...Array.from({ length: dice.below(100) }, () => dice.one(lines)))
      break
    case 6:
      lines[at] = `${line}${dice.one(BREAKS)}${dice.one(lines)}`
      break
    default:
      return Buffer.from(lines.join(dice.one(BREAKS)), 'latin1')
  }
  return Buffer.from(lines.join('\r\n'), 'latin1')
}

function spliced(text: string, part: string, dice: Dice): string {
  const at = dice.below(text.length + 1)
  return text.slice(0, at) + part + text.slice(at + dice.below(4))
}
