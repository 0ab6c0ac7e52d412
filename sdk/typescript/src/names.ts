import { InvalidSourceError } from "./errors.js";

const NAME = /^[A-Za-z0-9._-]+$/;
const MAX_NAME_BYTES = 255;

/** Whether a text may name a sink, or a part of a stream's name. */
export function isName(text: unknown): text is string {
  return typeof text === "string" && text.length <= MAX_NAME_BYTES && NAME.test(text);
}

/** Returns the name of a partition's stream; throws {@link InvalidSourceError} if it is not allowed. */
export function streamName(source: string, partition: string): string {
  for (const [what, part] of [
    ["source name", source],
    ["partition name", partition],
  ] as const) {
    if (typeof part !== "string" || !NAME.test(part)) {
      throw new InvalidSourceError(
        `${what} ${JSON.stringify(part)}: one or more letters, digits and "._-" are allowed`,
      );
    }
  }
  const name = `${source}/${partition}`;
  if (name.length > MAX_NAME_BYTES) {
    throw new InvalidSourceError(`stream name ${name} has ${name.length} bytes, ${MAX_NAME_BYTES} are allowed`);
  }
  return name;
}
