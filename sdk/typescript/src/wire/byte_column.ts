import { InvalidMessageError } from "../errors.js";
import { NULL_LENGTH, type Bytes, type Packed } from "../message.js";

// Below these sizes, a loop in JavaScript is faster than a call into native code.
const SHORT_TEXT = 24;
const SHORT_BYTES = 32;

/** The entries of one column, joined, and the length of each. It grows. */
export class ByteColumn {
  data: Buffer;
  lengths: Uint32Array;
  /** The bytes of `data` that are in use. */
  used = 0;
  /** The bytes of `data` that were taken by frames. */
  taken = 0;

  constructor(entries: number, bytes: number) {
    this.data = Buffer.allocUnsafe(bytes);
    this.lengths = new Uint32Array(entries);
  }

  /** Sets the entry at `index`, which is the one after the last. */
  set(index: number, value: Bytes | null | undefined, what: string): void {
    if (index >= this.lengths.length) this.#growEntries(index + 1);
    if (value === null || value === undefined) {
      this.lengths[index] = NULL_LENGTH;
    } else if (typeof value === "string") {
      this.lengths[index] = this.#write(value);
    } else if (value instanceof Uint8Array) {
      this.#copy(value);
      this.lengths[index] = value.length;
    } else {
      throw new InvalidMessageError(`a ${what} is ${typeof value}, and must be a Uint8Array, a string or null`);
    }
  }

  /** Makes all entries from `from` up to `to` null. */
  fillNull(from: number, to: number): void {
    if (to > this.lengths.length) this.#growEntries(to);
    this.lengths.fill(NULL_LENGTH, from, to);
  }

  /** Sets the entries from `index` on. Their lengths must add up. */
  setPacked(index: number, packed: Packed): void {
    const end = index + packed.lengths.length;
    if (end > this.lengths.length) this.#growEntries(end);
    this.lengths.set(packed.lengths, index);
    this.#copy(packed.data);
  }

  #copy(value: Uint8Array): void {
    const at = this.used;
    const end = at + value.length;
    if (end > this.data.length) this.#growBytes(end);
    const data = this.data;
    if (value.length <= SHORT_BYTES) {
      for (let i = 0; i < value.length; i++) data[at + i] = value[i]!;
    } else {
      data.set(value, at);
    }
    this.used = end;
  }

  /** Appends text, and returns its length in bytes. */
  #write(text: string): number {
    const at = this.used;
    // A UTF-16 code unit becomes at most three bytes.
    if (at + text.length * 3 > this.data.length) this.#growBytes(at + text.length * 3);
    const data = this.data;
    let written = 0;
    if (text.length <= SHORT_TEXT) {
      for (; written < text.length; written++) {
        const code = text.charCodeAt(written);
        if (code > 0x7f) break;
        data[at + written] = code;
      }
    }
    if (written < text.length) written = data.write(text, at);
    this.used = at + written;
    return written;
  }

  #growBytes(needed: number): void {
    const grown = Buffer.allocUnsafe(Math.max(needed, this.data.length * 2));
    this.data.copy(grown, 0, 0, this.used);
    this.data = grown;
  }

  #growEntries(needed: number): void {
    const grown = new Uint32Array(Math.max(needed, this.lengths.length * 2));
    grown.set(this.lengths);
    this.lengths = grown;
  }
}
