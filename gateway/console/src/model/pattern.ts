/** Whether a pattern of streams covers a stream: a star stands for any characters, without a slash. */
export function covers(pattern: string, stream: string): boolean {
  const [wanted, found] = [pattern.split("/"), stream.split("/")];
  return wanted.length === found.length && wanted.every((one, index) => matches(one.split("*"), found[index] ?? ""));
}

/** Matching each text at its first occurrence suffices, and takes linear time for any pattern. */
function matches(texts: string[], part: string): boolean {
  const [first = "", ...others] = texts;
  const last = others.pop();
  if (last === undefined) return part === first;
  let at = first.length;
  const end = part.length - last.length;
  if (at > end || !part.startsWith(first) || !part.endsWith(last)) return false;
  for (const text of others) {
    const place = part.indexOf(text, at);
    if (place < 0 || place + text.length > end) return false;
    at = place + text.length;
  }
  return true;
}
