import type { Report } from "../gen/headrace/protocol/v1/connector_pb.js";
import type { Health } from "../health.js";

const REPORT_MS = 1000;
const HEARTBEAT_MS = 2000;

/**
 * Sends a session's reports: at once when something has changed, but at most one a second, and every two seconds in any case,
 * as heartbeats.
 */
export class Reporter {
  #timer: NodeJS.Timeout | undefined;
  #heartbeats: NodeJS.Timeout | undefined;
  #sentAt = -Infinity;

  /**
   * @param health - What is reported.
   * @param send - Sends a report.
   */
  constructor(
    private readonly health: Health,
    private readonly send: (report: Report) => void,
  ) {}

  /** Sends the first report, and more as something changes. */
  start(): void {
    this.health.sessionBegan();
    this.health.onChange(() => {
      this.#soon();
    });
    this.#soon();
    this.#heartbeats = setInterval(() => {
      this.#report(true);
    }, HEARTBEAT_MS);
  }

  /** Sends no more. */
  stop(): void {
    this.health.onChange(undefined);
    clearTimeout(this.#timer);
    clearInterval(this.#heartbeats);
  }

  #soon(): void {
    this.#timer ??= setTimeout(
      () => {
        this.#timer = undefined;
        this.#report(false);
      },
      Math.max(0, this.#sentAt + REPORT_MS - performance.now()),
    );
  }

  #report(isHeartbeat: boolean): void {
    this.#sentAt = performance.now();
    const report = this.health.takeReport(isHeartbeat);
    if (report !== undefined) this.send(report);
  }
}
