const MAX_MS = 30_000;

/** How long to wait before the next connection. */
export class Retry {
  #failures = 0;

  /**
   * @param leastMs - What the server asks for, by the field `retry`, in milliseconds.
   * @param random - Draws from 0 to 1.
   */
  constructor(
    public leastMs: number,
    private readonly random: () => number = Math.random,
  ) {}

  /** A connection has worked. */
  reset(): void {
    this.#failures = 0;
  }

  /**
   * The next wait, in milliseconds: at least what the server asks for, and at random up to a bound that doubles with each
   * failure in a row, so that the connectors of a server that restarts do not return all at once.
   */
  next(): number {
    this.#failures += 1;
    const bound = Math.min(this.leastMs * 2 ** this.#failures, Math.max(MAX_MS, this.leastMs));
    return this.leastMs + this.random() * (bound - this.leastMs);
  }
}
