import { Rows } from "../rows.js";
import { SpillFile, type Place } from "./spill_file.js";

/** How much may be held in memory, by all parts together. */
export class Hold {
  #held = 0;

  constructor(private readonly limit: number) {}

  /** Takes room for this many bytes; returns whether there was enough. */
  take(bytes: number): boolean {
    if (this.#held + bytes > this.limit) return false;
    this.#held += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#held -= bytes;
  }
}

/** The rows of a part: in memory, and in a file where they do not fit. */
export class HeldPart {
  #items: (Rows | Place)[] = [];
  #bytes = 0;
  readonly #file = new SpillFile();

  constructor(private readonly hold: Hold) {}

  async add(rows: Rows, bytes: number): Promise<void> {
    if (this.hold.take(bytes)) {
      this.#bytes += bytes;
      this.#items.push(rows);
    } else {
      this.#items.push(await this.#file.write(rows.frame));
    }
  }

  /** The rows, in order; may be called again. */
  async *rows(): AsyncGenerator<Rows, void> {
    for (const item of this.#items) yield item instanceof Rows ? item : new Rows(await this.#file.read(item));
  }

  async release(): Promise<void> {
    this.hold.release(this.#bytes);
    this.#bytes = 0;
    this.#items = [];
    await this.#file.close();
  }
}
