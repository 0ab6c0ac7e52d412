/**
 * The status of the gateway: as it changes, by server-sent events, while the page is visible, and once in a while
 * otherwise. A browser has six connections to a gateway, and pages that nobody looks at would hold them all.
 */

import { changed, whole, type Changes } from "../model/changes";
import type { Me, Status, StatusDocument } from "../model/documents";
import { History } from "../model/history";
import { me, request } from "./api";
import { parseExactly } from "./exact";

export interface Snapshot {
  status: Status | null;
  /** When the gateway was last heard of, by this machine's clock. */
  heardAt: number;
  /** Whether what is shown may be out of date. */
  stale: boolean;
  signInNeeded: boolean;
  me: Me | null;
  mayControl: boolean;
  mayPeek: boolean;
}

const SILENCE_MS = 15_000;
const RETRY_MS = 2000;
const HIDDEN_MS = 10_000;
/** The events begin with a whole status, which takes a moment of a large gateway: the page is drawn first. */
const DRAWN_MS = 1000;

export class Feed {
  readonly history = new History();
  private snapshot: Snapshot = {
    status: null,
    heardAt: 0,
    stale: false,
    signInNeeded: false,
    me: null,
    mayControl: false,
    mayPeek: false,
  };
  private listeners = new Set<() => void>();
  private events: EventSource | null = null;
  private timer: number | undefined;
  private generation = 0;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly current = (): Snapshot => this.snapshot;

  /** Connects as the page needs it, now that it is hidden or visible. */
  readonly turn = (): void => {
    if (this.snapshot.me !== null && !this.snapshot.signInNeeded) void this.connect();
  };

  /** Connects, anew if it is connected: after signing in, or when the connection is lost. */
  readonly connect = async (): Promise<void> => {
    this.stop();
    const generation = ++this.generation;
    try {
      const who = await me();
      if (generation !== this.generation) return;
      const barred = !who.rights.includes("admin");
      const may = (right: string): boolean => who.rights.includes(right);
      this.publish({ me: who, signInNeeded: barred, mayControl: may("control"), mayPeek: may("peek") });
      if (barred) return;
      if (document.hidden) await this.poll(generation);
      else if (this.snapshot.status) this.listen();
      else await this.begin(generation);
    } catch {
      if (generation === this.generation) this.lost();
    }
  };

  stop(): void {
    this.generation += 1;
    window.clearTimeout(this.timer);
    this.events?.close();
    this.events = null;
  }

  /** Forgets what the one who signs out has seen. */
  clear(): void {
    this.stop();
    this.publish({ status: null, signInNeeded: true, mayControl: false, mayPeek: false, me: null });
  }

  private listen(): void {
    const events = new EventSource("/api/v1/events");
    this.events = events;
    this.watch();
    events.addEventListener("status", (event: MessageEvent<string>) => {
      this.heard(whole(parseExactly(event.data) as StatusDocument, Date.now()));
    });
    events.addEventListener("changes", (event: MessageEvent<string>) => {
      const before = this.snapshot.status;
      if (before) this.heard(changed(before, parseExactly(event.data) as Changes, Date.now()));
    });
    events.onerror = () => this.lost();
  }

  /** Shows the status, which the browser has requested before this script was there, and then follows the events. */
  private async begin(generation: number): Promise<void> {
    const status = await this.read(generation);
    if (!status) return;
    this.heard(status);
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.listen(), DRAWN_MS);
  }

  private async read(generation: number): Promise<Status | null> {
    const status = whole((await request("status")) as StatusDocument, Date.now());
    return generation === this.generation ? status : null;
  }

  private async poll(generation: number): Promise<void> {
    const status = await this.read(generation);
    if (!status) return;
    this.heard(status);
    this.timer = window.setTimeout(() => void this.connect(), HIDDEN_MS);
  }

  // Comments keep the connection alive but are not told to the page: events that do not come are no proof of silence
  // while the browser says that the connection is open.
  private watch(): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      if (this.events?.readyState === EventSource.OPEN) this.watch();
      else this.lost();
    }, SILENCE_MS);
  }

  private heard(status: Status): void {
    const now = Date.now();
    this.history.record(status, now);
    this.publish({ status, heardAt: now, stale: false });
    if (this.events) this.watch();
  }

  private lost(): void {
    this.stop();
    this.publish({ stale: true });
    this.timer = window.setTimeout(() => void this.connect(), RETRY_MS);
  }

  private publish(part: Partial<Snapshot>): void {
    this.snapshot = { ...this.snapshot, ...part };
    for (const listener of this.listeners) listener();
  }
}
