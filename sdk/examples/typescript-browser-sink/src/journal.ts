import { mkdir, open, readdir, readFile, rm, type FileHandle } from "node:fs/promises";
import { join } from "node:path";

/** An event, as browsers get it. */
export interface StoredEvent {
  /** Its place among all events; later ones have larger numbers, perhaps with gaps. */
  readonly number: number;
  /** Its id for browsers, which no other event has ever had. */
  readonly id: string;
  /** Its data, one line of JSON. */
  readonly data: string;
}

interface Segment {
  readonly path: string;
  readonly first: number;
}

const NAME = /^(\d{16})-[0-9a-f]+\.jsonl$/;

/**
 * Files of events, each with lines of JSON. The oldest file is removed once none of its events is needed.
 *
 * A file is written by one start of the program only, so that a line that a crash has cut off is always the last one.
 */
export class Journal {
  readonly #segments: Segment[] = [];
  #file: FileHandle | undefined;
  #fileBytes = 0;
  #isFolderChanged = false;

  /**
   * @param folder - Where the files are.
   * @param epoch - Distinguishes this start of the program from all others.
   * @param segmentBytes - The size after which a new file is begun.
   */
  constructor(
    private readonly folder: string,
    private readonly epoch: string,
    private readonly segmentBytes: number,
  ) {}

  /** Reads the events that earlier starts have written, in order. */
  async *load(): AsyncGenerator<StoredEvent> {
    await mkdir(this.folder, { recursive: true });
    for (const name of (await readdir(this.folder)).sort()) {
      const match = NAME.exec(name);
      if (match === null) continue;
      const path = join(this.folder, name);
      this.#segments.push({ path, first: Number(match[1]) });
      const lines = (await readFile(path, "utf8")).split("\n");
      lines.pop(); // Empty, or cut off by a crash: then Spark has not been told that it is written.
      for (const line of lines) yield JSON.parse(line) as StoredEvent;
    }
  }

  /** Appends events. Those of a call that throws may be there or not. */
  async append(events: readonly StoredEvent[]): Promise<void> {
    const file = (this.#file ??= await this.#begin(events[0].number));
    const lines = Buffer.from(events.map((event) => `${JSON.stringify(event)}\n`).join(""));
    try {
      await file.appendFile(lines);
      this.#fileBytes += lines.length;
      if (this.#fileBytes >= this.segmentBytes) await this.#finish();
    } catch (error) {
      // What follows must not continue a line that was cut off.
      await this.#finish().catch(() => undefined);
      throw error;
    }
  }

  /** Makes everything that was appended survive a crash of the machine. */
  async sync(): Promise<void> {
    await this.#file?.datasync();
    if (!this.#isFolderChanged) return;
    const folder = await open(this.folder);
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
    this.#isFolderChanged = false;
  }

  /** Removes files all of whose events have a number up to this one. */
  async forgetThrough(number: number): Promise<void> {
    while (this.#segments.length > 1 && this.#segments[1].first <= number + 1) {
      await rm(this.#segments[0].path, { force: true });
      this.#segments.shift();
    }
  }

  async close(): Promise<void> {
    await this.#finish();
  }

  async #begin(first: number): Promise<FileHandle> {
    const path = join(this.folder, `${String(first).padStart(16, "0")}-${this.epoch}.jsonl`);
    const file = await open(path, "a", 0o600);
    this.#segments.push({ path, first });
    this.#fileBytes = 0;
    this.#isFolderChanged = true;
    return file;
  }

  async #finish(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    if (file === undefined) return;
    try {
      await file.datasync();
    } finally {
      await file.close();
    }
  }
}
