import type { ServerResponse } from "node:http";

import type { Ring } from "./ring.js";

/** How patient the sink is with browsers. */
export interface BrowserLimits {
  /** How long a browser may read nothing while there is something for it, in milliseconds. */
  readonly stallMs: number;
  /** How often to send something to a browser that has everything, in milliseconds: so a lost connection is noticed. */
  readonly heartbeatMs: number;
}

/**
 * A browser that is connected.
 *
 * It has no queue: it takes events from the ring as fast as its connection does. One that falls so far behind that the ring no
 * longer has its next event learns that it has lost some, and continues with the oldest one. One that reads nothing is
 * disconnected.
 */
export class Browser {
  #isCaughtUp = false;
  #stalled: NodeJS.Timeout | undefined;
  readonly #heartbeat: NodeJS.Timeout;
  readonly #unsubscribe: () => void;

  /**
   * @param next - The number of the first event that it gets.
   * @param hasLost - Whether the ring no longer has what the browser has seen last.
   */
  constructor(
    private readonly response: ServerResponse,
    private readonly ring: Ring,
    private next: number,
    hasLost: boolean,
    private readonly limits: BrowserLimits,
  ) {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    response.on("drain", () => {
      clearTimeout(this.#stalled);
      this.#stalled = undefined;
      this.#send();
    });
    this.#unsubscribe = ring.onChange(() => {
      this.#send();
    });
    this.#heartbeat = setInterval(() => {
      if (this.#isCaughtUp && this.#stalled === undefined) this.#write(":\n\n");
    }, limits.heartbeatMs);
    response.on("close", () => {
      this.#unsubscribe();
      clearInterval(this.#heartbeat);
      clearTimeout(this.#stalled);
    });
    this.#write("retry: 1000\n\n");
    if (hasLost) this.#tellLoss();
    this.#send();
  }

  /** Sends events until the connection takes no more, or the browser has all. */
  #send(): void {
    while (this.#stalled === undefined && !this.response.destroyed) {
      if (this.ring.hasLost(this.next)) this.#tellLoss();
      const event = this.ring.from(this.next);
      if (event === undefined) {
        if (!this.#isCaughtUp) this.#write("event: caught-up\ndata:\n\n");
        this.#isCaughtUp = true;
        return;
      }
      this.next = event.number + 1;
      this.#write(`id: ${event.id}\ndata: ${event.data}\n\n`);
    }
  }

  #tellLoss(): void {
    this.next = this.ring.oldest;
    this.#write("event: lost\ndata:\n\n");
  }

  #write(text: string): void {
    if (this.response.write(text) || this.#stalled !== undefined) return;
    this.#stalled = setTimeout(() => {
      this.response.destroy();
    }, this.limits.stallMs);
  }
}
