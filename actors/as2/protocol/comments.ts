/**
 * A field of a receipt without its comments (RFC 822 §3.1.4): what stands in parentheses is for people. Where they do not
 * match, nothing is a comment.
 */
export function withoutComments(field: string): string {
  if (!field.includes('(')) return field
  let text = ''
  let depth = 0
  for (let at = 0; at < field.length; at++) {
    const character = field.charAt(at)
    if (character === '(') depth += 1
    else if (character === ')' && depth > 0) {
      depth -= 1
      text += ' '
    } else if (depth === 0) text += character
    else if (character === '\\') at += 1
  }
  return depth === 0 ? text : field
}
