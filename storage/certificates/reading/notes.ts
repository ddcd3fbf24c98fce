import type { Pairs } from './pairing.ts'
import type { PieceCertificate, Pieces } from './pieces.ts'

/** What an upload's answer says to people about its content. Certificates and keys are named by their index. */

const MOST_NAMED = 10

export function notesOf(pieces: Pieces, pairs: Pairs): readonly string[] {
  const { certificates, keys, leftOut, ignored } = pieces
  const alone = pairs.certificateOfKey.flatMap((certificate, at) => (certificate === null ? [at] : []))
  const authorities = certificates.flatMap((certificate, at) =>
    pairs.keyOfCertificate[at] === null && isAuthorityOf(certificate, certificates) ? [at] : [],
  )
  const notes = [...leftOut.map(({ noun, reason }) => `A ${noun} was left out: ${reason}.`), ...ignored]
  if (certificates.length === 0 && keys.length > 0) {
    notes.push(
      'There is no certificate, so that nothing can be imported. Upload a private key together with its certificate. ' +
        'One that is stored without its key gets the key when it is deleted and uploaded again with it.',
    )
  } else if (alone.length > 0) {
    notes.push(`Without a certificate among these, and not imported: private key ${listed(alone)}.`)
  }
  if (authorities.length > 0) {
    notes.push(
      `Of an authority that issued others among these, and seldom needed: certificate ${listed(authorities)}.`,
    )
  }
  return notes
}

function isAuthorityOf({ facts }: PieceCertificate, all: readonly PieceCertificate[]): boolean {
  return facts.is_ca && all.some((other) => other.facts !== facts && other.facts.issuer === facts.subject)
}

function listed(indexes: readonly number[]): string {
  const rest = indexes.length - MOST_NAMED
  return indexes.slice(0, MOST_NAMED).join(', ') + (rest > 0 ? ` and ${rest} more` : '')
}
