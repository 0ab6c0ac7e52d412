/** A consumer's iterator throws this when the items were dropped. */
export class DroppedError extends Error {
  override name = "DroppedError";

  constructor() {
    super("the part was dropped");
  }
}

/** A queue to one consumer, which iterates over it. It is bounded by size; a single item may be larger. */
export class BoundedQueue<T> implements AsyncIterable<T> {
  #items: [item: T, size: number][] = [];
  #held = 0;
  #state: "open" | "ended" | "dropped" | "discarding" = "open";
  #isWaiting = false;
  #ready: (() => void) | undefined;
  #room: (() => void) | undefined;

  /**
   * @param limit - The bound, in the unit of the sizes.
   * @param moved - Called when there is room again, and when the consumer begins to wait for an item.
   */
  constructor(
    private readonly limit: number,
    private readonly moved: () => void = () => undefined,
  ) {}

  /** Whether the bound is reached. */
  get isFull(): boolean {
    return this.#held >= this.limit;
  }

  /** Whether the consumer waits for an item. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  get isEnded(): boolean {
    return this.#state === "ended";
  }

  get isDropped(): boolean {
    return this.#state === "dropped";
  }

  /** Puts an item in, then waits until there is room for more. */
  async put(item: T, size: number): Promise<void> {
    this.offer(item, size);
    if (this.isFull) {
      await new Promise<void>((resolve) => {
        this.#room = resolve;
      });
    }
  }

  /** Puts an item in, regardless of the bound. */
  offer(item: T, size: number): void {
    if (this.#state !== "open") return;
    this.#items.push([item, size]);
    this.#held += size;
    this.#ready?.();
  }

  /** No more items follow. */
  end(): void {
    if (this.#state === "open") this.#state = "ended";
    this.#ready?.();
  }

  /** Makes the consumer's next step throw {@link DroppedError}, unless it has the end already. */
  drop(): void {
    this.#clear("dropped");
  }

  /** Discards all items, and all that are put in later: the consumer is gone. */
  discard(): void {
    if (this.#state !== "dropped") this.#clear("discarding");
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    for (;;) {
      if (this.isDropped) throw new DroppedError();
      const next = this.#items.shift();
      if (next !== undefined) {
        const [item, size] = next;
        const wasFull = this.isFull;
        this.#held -= size;
        if (wasFull && !this.isFull) this.#makeRoom();
        yield item;
      } else if (this.#state !== "open") {
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#ready = resolve;
          this.#isWaiting = true;
          this.moved();
        });
        this.#isWaiting = false;
        this.#ready = undefined;
      }
    }
  }

  #clear(state: "dropped" | "discarding"): void {
    this.#state = state;
    this.#items = [];
    this.#held = 0;
    this.#makeRoom();
    this.#ready?.();
  }

  #makeRoom(): void {
    this.#room?.();
    this.#room = undefined;
    this.moved();
  }
}
