import { endianness } from "node:os";

/** Whether this machine has its integers in the other order than frames. */
export const IS_BIG_ENDIAN = endianness() === "BE";

/** Returns little-endian 32-bit integers as an array. They are copied, because in a message they are not aligned. */
export function words(bytes: Uint8Array): Uint32Array {
  const copy = new Uint8Array(bytes);
  if (IS_BIG_ENDIAN) Buffer.from(copy.buffer).swap32();
  return new Uint32Array(copy.buffer);
}
