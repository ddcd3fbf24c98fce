/**
 * The words that Slack's incoming webhooks answer with when they refuse a message, and what they mean. No other text of an
 * answer is told: it might repeat what we sent, the address too.
 */
const MEANINGS: ReadonlyMap<string, string> = new Map([
  ['action_prohibited', 'an administrator has forbidden it'],
  ['channel_is_archived', 'the channel is archived'],
  ['channel_not_found', 'there is no such channel'],
  ['invalid_blocks', 'the blocks are not accepted'],
  ['invalid_payload', 'the message is not accepted'],
  ['invalid_token', 'the address is not valid any more'],
  ['no_active_hooks', 'the webhook is disabled'],
  ['no_service', 'the webhook is disabled, removed or not valid'],
  ['no_service_id', 'the address is incomplete'],
  ['no_team', 'there is no such workspace'],
  ['no_text', 'the message has no text'],
  ['posting_to_general_channel_denied', 'posting to the general channel is not allowed'],
  ['team_disabled', 'the workspace is disabled'],
  ['user_not_found', 'there is no such user'],
])

/** Why Slack has refused a message, in words; null when its answer does not say. */
export function refusalOfSlack(answer: string): string | null {
  const word = answer.trim()
  const meaning = MEANINGS.get(word)
  return meaning === undefined ? null : `${word}, ${meaning}`
}
