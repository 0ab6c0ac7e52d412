/** The tokens of messages that are not acknowledged, by ascending sequence. */
export class Tokens {
  #sequences: number[] = [];
  #tokens: unknown[] = [];
  #at = 0;

  /** Adds the tokens of consecutive messages, the last of which has this sequence. */
  add(tokens: readonly unknown[], last: number): void {
    let sequence = last - tokens.length;
    for (const token of tokens) {
      sequence += 1;
      if (token === undefined) continue;
      this.#sequences.push(sequence);
      this.#tokens.push(token);
    }
  }

  /** Removes and returns the tokens of all messages up to a sequence. */
  takeThrough(sequence: bigint): unknown[] {
    const began = this.#at;
    while (this.#at < this.#sequences.length && this.#sequences[this.#at] <= sequence) this.#at += 1;
    const taken = this.#tokens.slice(began, this.#at);
    if (this.#at * 2 >= this.#sequences.length) {
      this.#sequences = this.#sequences.slice(this.#at);
      this.#tokens = this.#tokens.slice(this.#at);
      this.#at = 0;
    }
    return taken;
  }

  clear(): void {
    this.#sequences = [];
    this.#tokens = [];
    this.#at = 0;
  }
}
