import { randomBytes } from "node:crypto";

import { Journal, type StoredEvent } from "./journal.js";

/** How much a ring keeps. */
export interface RingLimits {
  readonly events: number;
  readonly bytes: number;
}

/** Into how many files the bytes of a ring are divided. */
const SEGMENTS = 4;

/**
 * The last events, in memory and on disk. It keeps no more than its limits allow: each new event removes the oldest ones that
 * are too many.
 */
export class Ring {
  #events: StoredEvent[] = [];
  /** Where the oldest event is in the list; what is before was removed. */
  #begin = 0;
  #bytes = 0;
  #next = 1;
  /** The number of the last event that was removed. */
  #removed = 0;
  readonly #listeners = new Set<() => void>();

  private constructor(
    private readonly limits: RingLimits,
    private readonly epoch: string,
    private readonly journal: Journal,
  ) {}

  /** Opens a ring, with the events that are in its folder. */
  static async open(folder: string, limits: RingLimits): Promise<Ring> {
    const epoch = randomBytes(6).toString("hex");
    const journal = new Journal(folder, epoch, limits.bytes / SEGMENTS);
    const ring = new Ring(limits, epoch, journal);
    for await (const event of journal.load()) ring.#add(event);
    await journal.forgetThrough(ring.#removed);
    return ring;
  }

  /** The largest data that fits, in bytes. */
  get maxDataBytes(): number {
    return Math.floor(this.limits.bytes / SEGMENTS);
  }

  /** No event that is there, or will be, has a smaller number. Events that are being written have larger ones, too. */
  get oldest(): number {
    return this.#removed + 1;
  }

  /** Appends events, and tells the listeners. If it throws, none of them was shown. */
  async append(data: readonly string[]): Promise<void> {
    if (data.length === 0) return;
    const first = this.#next;
    // If writing fails, the numbers are not used again: some of the events may be in the file.
    this.#next += data.length;
    const events = data.map((one, i) => ({ number: first + i, id: `${this.epoch}-${first + i}`, data: one }));
    await this.journal.append(events);
    for (const event of events) this.#add(event);
    await this.journal.forgetThrough(this.#removed);
    for (const listener of this.#listeners) listener();
  }

  /** Makes what was appended survive a crash of the machine. */
  sync(): Promise<void> {
    return this.journal.sync();
  }

  /** The first event with this number or a later one. */
  from(number: number): StoredEvent | undefined {
    return this.#events[this.#indexOf(number)];
  }

  /** Whether an event with this number or a later one was removed. */
  hasLost(number: number): boolean {
    return number <= this.#removed;
  }

  /** The number after the event with an id; undefined if the ring does not contain it, or no longer. */
  after(id: string): number | undefined {
    const number = Number(id.slice(id.lastIndexOf("-") + 1));
    return Number.isSafeInteger(number) && this.from(number)?.id === id ? number + 1 : undefined;
  }

  /** Calls a function after each change; returns what ends that. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): Promise<void> {
    return this.journal.close();
  }

  #add(event: StoredEvent): void {
    this.#events.push(event);
    this.#bytes += sizeOf(event);
    this.#next = Math.max(this.#next, event.number + 1);
    while (this.#events.length - this.#begin > this.limits.events || this.#bytes > this.limits.bytes) {
      const oldest = this.#events[this.#begin++];
      this.#bytes -= sizeOf(oldest);
      this.#removed = oldest.number;
    }
    // Moving all events costs as much as the removals since the last time.
    if (this.#begin * 2 > this.#events.length) {
      this.#events = this.#events.slice(this.#begin);
      this.#begin = 0;
    }
  }

  /** The index of the first event with this number or a later one. */
  #indexOf(number: number): number {
    let low = this.#begin;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#events[middle].number < number) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** An event's size in memory, about. */
function sizeOf({ data }: StoredEvent): number {
  return Buffer.byteLength(data) + 100;
}
