import { describe, HeadraceError } from "./errors.js";
import { stderrLogger } from "./logger.js";
import type { Options } from "./options.js";
import type { Sink } from "./sink.js";
import type { Source } from "./source.js";
import { begin } from "./start.js";

const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

// `headrace connector run` ignores SIGHUP. Other programs inherit that, Node.js does not: until somebody listens, it ends.
if (process.env["HEADRACE_INSTANCE"]) process.on("SIGHUP", () => undefined);

/**
 * Runs a connector as a process: `process.exitCode = await run(source)`.
 *
 * A source runs until it has ended and everything is acknowledged, a sink until it is stopped. SIGTERM and SIGINT stop the
 * connector cleanly, as {@link Connector.stop} does. A second signal ends the process at once, with 143 or 130. SIGHUP does not
 * end it: TLS files are read again with each connection. Where a method of the connector never returns, not even `close`, the
 * process ends without it.
 *
 * @returns The exit code: 0 if the source has ended or the connector was stopped, 1 if it failed, 2 if it or an option is
 *   invalid. Failures are logged, and unless HEADRACE_LOG_FORMAT is `json`, written to stderr as a line that begins with `Error:`.
 */
export async function run(connector: Source | Sink, options: Options = {}): Promise<number> {
  const logger = options.logger ?? stderrLogger;
  const stopping = new AbortController();
  const stopped = (signal: keyof typeof SIGNALS): void => {
    if (stopping.signal.aborted) process.exit(SIGNALS[signal]);
    logger.info("stopping", { signal });
    stopping.abort();
  };
  const signals = Object.keys(SIGNALS) as (keyof typeof SIGNALS)[];
  for (const signal of signals) process.on(signal, stopped);
  const hungUp = (): void => {
    logger.info("SIGHUP: the connector runs on");
  };
  process.on("SIGHUP", hungUp);
  let isAbandoned = false;
  const ended = (code: number): number => {
    // Its timer would keep the process from ending.
    if (isAbandoned) process.exit(code);
    return code;
  };
  try {
    const signal = options.signal ? AbortSignal.any([options.signal, stopping.signal]) : stopping.signal;
    const abandoned = (): void => {
      isAbandoned = true;
    };
    await begin(connector, { ...options, signal }, abandoned).done;
    return ended(0);
  } catch (error) {
    logger.error("the connector has failed", { error: describe(error) });
    // `headrace` shows this line as the reason if the program fails in a deployment; in its own JSON, it reads the one before.
    if (!logsJson(options)) process.stderr.write(`Error: ${describe(error)}\n`);
    return ended(error instanceof HeadraceError ? error.exitCode : 1);
  } finally {
    for (const signal of signals) process.off(signal, stopped);
    process.off("SIGHUP", hungUp);
  }
}

/** Whether stderr is for lines of JSON only. */
function logsJson(options: Options): boolean {
  return options.logger === undefined && process.env["HEADRACE_LOG_FORMAT"] === "json";
}
