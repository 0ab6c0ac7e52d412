import { setTimeout as sleep } from "node:timers/promises";

import { attach, ingest } from "./attempt.js";
import { Backoff } from "./backoff.js";
import { Calls } from "./calls.js";
import { describe, GatewayRefusedError, GatewayUnavailableError, HeadraceError, SinkFailedError } from "./errors.js";
import { Health } from "./health.js";
import { settingsOf, type Options, type Settings } from "./options.js";
import { Overdue } from "./overdue.js";
import type { Sink } from "./sink.js";
import { SinkDriver } from "./sinks/driver.js";
import type { Source } from "./source.js";
import { Driver } from "./sources/driver.js";
import type { Ending } from "./wire/ending.js";
import { leadsHere } from "./wire/address.js";

/** After which time a session counts as a success. */
const STOOD_MS = 2000;
/** How often a gateway that is away is logged. */
const REPEAT_MS = 10_000;

/**
 * A connector that runs. It is an `AsyncDisposable`: at the end of the block of an `await using` declaration, it is stopped.
 */
export interface Connector extends AsyncDisposable {
  /**
   * Resolves when the source has ended and everything is acknowledged, or when the connector was stopped. Rejects with a
   * {@link HeadraceError} if the connector failed, or the gateway refused it. It may be left alone: a rejection that nobody
   * awaits does not end the process.
   */
  readonly done: Promise<void>;
  /**
   * Stops the connector, and resolves when `done` would. A source sends what was read, and waits up to `drainMs` for
   * acknowledgements. A sink answers what has arrived, within that time.
   */
  stop(): Promise<void>;
}

/**
 * Starts a source or a sink, and keeps it connected. A gateway that is away is waited for without limit. At the end, also after
 * an error, it calls `close` of the source or sink.
 *
 *     await using connector = start(source, { gateway: "gateway:7433" });
 *     await connector.done;
 *
 * @throws {@link InvalidSourceError}, {@link InvalidSinkError} or {@link InvalidOptionsError} at once.
 */
export function start(connector: Source | Sink, options: Options = {}): Connector {
  return begin(connector, options, () => undefined);
}

/** As {@link start}; calls `abandoned` if a method of the connector has not returned at the end. */
export function begin(connector: Source | Sink, options: Options, abandoned: () => void): Connector {
  const stopping = new AbortController();
  const health = options.health ?? new Health();
  const calls = new Calls();
  let settings: Settings;
  let attempt: (signal: AbortSignal) => Promise<Ending>;
  if ("mode" in connector) {
    const driver = new SinkDriver(connector, calls);
    settings = settingsOf(options, driver.name);
    attempt = (signal) => attach(driver, settings, health, signal);
  } else {
    const driver = new Driver(connector, calls);
    settings = settingsOf(options, driver.name);
    attempt = (signal) => ingest(driver, settings, health, signal);
  }
  if (settings.token !== undefined && settings.tls === undefined && !leadsHere(settings.gateway)) {
    settings.logger.warn("the token is sent in the clear: use TLS", { gateway: settings.gateway });
  }
  const unwatch = calls.watch(new Overdue(connector, settings.stuckMs, settings.logger, health));
  const signal = options.signal ? AbortSignal.any([options.signal, stopping.signal]) : stopping.signal;
  const done = keepConnected(attempt, settings, health, signal).finally(async () => {
    if (!(await calls.close(connector, connector.name, settings.closeMs, settings.logger))) abandoned();
    unwatch();
  });
  done.catch(() => undefined);
  const stop = async (): Promise<void> => {
    stopping.abort();
    await done;
  };
  return { done, stop, [Symbol.asyncDispose]: stop };
}

/** Connects again and again, until a session ends permanently. */
async function keepConnected(
  attempt: (signal: AbortSignal) => Promise<Ending>,
  settings: Settings,
  health: Health,
  signal: AbortSignal,
): Promise<void> {
  const backoff = new Backoff(settings.firstBackoffMs, settings.maxBackoffMs);
  let loggedAt = -Infinity;
  while (!signal.aborted) {
    const began = performance.now();
    settings.tokenFile?.refresh();
    try {
      const ending = await attempt(signal);
      if (ending !== "the gateway asked to reconnect") return;
    } catch (error) {
      if (isReplaced(error, settings)) {
        settings.logger.info(
          "the gateway no longer takes the token, and its file contains another one: connecting with that",
        );
      } else if (!(error instanceof GatewayUnavailableError || error instanceof SinkFailedError)) throw asOurs(error);
      health.survived(error);
      if (performance.now() - loggedAt >= REPEAT_MS) {
        settings.logger.warn("the session has ended; trying again", { error: describe(error) });
        loggedAt = performance.now();
      }
    }
    if (performance.now() - began >= STOOD_MS) {
      backoff.reset();
      loggedAt = -Infinity;
    }
    await sleep(backoff.next(), undefined, { signal }).catch(() => undefined);
  }
}

/** Whether the gateway does not know the token that it was sent, and the file of the token contains another one by now. */
function isReplaced(error: unknown, settings: Settings): boolean {
  if (!(error instanceof GatewayRefusedError) || error.status !== "UNAUTHENTICATED") return false;
  return settings.tokenFile?.refresh() ?? false;
}

/** An error that is none of ours is a fault of the SDK. */
function asOurs(error: unknown): HeadraceError {
  return error instanceof HeadraceError
    ? error
    : new HeadraceError(`internal error: ${describe(error)}`, { cause: error });
}
