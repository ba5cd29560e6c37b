// The log of a job arrives in parts, each with facts about it in a header.

/** About is what the server says about a part of a log. */
export interface About {
  /** offset is where the part starts, if bytes before it are not kept. */
  offset?: number;
  end_offset?: number;
  ended?: boolean;
}

/** readAbout reads the numbers and booleans of the header, a map in YSON. */
export function readAbout(header: string | null): About {
  const found: Record<string, number | boolean> = {};
  for (const [, name, value] of (header ?? '').matchAll(/"?(\w+)"?=(%true|%false|\d+)/g)) {
    if (name && value) found[name] = value.startsWith('%') ? value === '%true' : Number(value);
  }
  return found as About;
}

/** mostShown is how much of a log the page keeps, in characters. */
export const mostShown = 1 << 20;

/** keepEnd drops whole lines from the start of a text that is too long. */
export function keepEnd(text: string, most = mostShown): string {
  if (text.length <= most) return text;
  const from = text.indexOf('\n', text.length - most);
  return from < 0 ? text.slice(-most) : text.slice(from + 1);
}
