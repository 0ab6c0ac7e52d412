/** Exponential backoff with full jitter, so that the clients of a server that was away do not return all at once. */
export class Backoff {
  #attempts = 0;

  /**
   * @param firstMs - The upper bound of the first wait. It doubles with each further one.
   * @param maxMs - The upper bound of all waits.
   * @param random - Draws from [0, 1).
   */
  constructor(
    private readonly firstMs: number,
    private readonly maxMs: number,
    private readonly random: () => number = Math.random,
  ) {}

  /** The longest that the next wait may be, in milliseconds. */
  get bound(): number {
    return Math.min(this.maxMs, this.firstMs * 2 ** Math.min(this.#attempts, 60));
  }

  /** Returns how long to wait now, in milliseconds. */
  next(): number {
    const wait = this.bound * this.random();
    this.#attempts += 1;
    return wait;
  }

  /** Starts again with the first wait: an attempt has succeeded. */
  reset(): void {
    this.#attempts = 0;
  }
}
