/**
 * The older webhooks of Teams take every message with a 200, and tell in the answer's text when it was not delivered. It
 * is text for people, and the only sign that there is.
 */
const REFUSAL =
  /Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error (\d{3})\b/

/** The status with which Teams has refused a message that its webhook took; null when it has not. */
export function refusalOfTeams(answer: string): number | null {
  const status = Number(REFUSAL.exec(answer)?.[1] ?? Number.NaN)
  return status >= 400 ? status : null
}
