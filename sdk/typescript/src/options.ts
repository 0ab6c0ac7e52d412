import { followedTls, optionsOf, type Given } from "./environment.js";
import type { Health } from "./health.js";
import { stderrLogger, withFields, writesJson, type Logger } from "./logger.js";
import { noMetrics, type Metrics } from "./metrics.js";
import { InvalidOptionsError } from "./errors.js";
import type { Tls } from "./tls.js";
import { TokenFile } from "./token_file.js";

/**
 * How a connector is run. Everything is optional. Times are in milliseconds, sizes in bytes.
 *
 * Absent settings come from the environment, as `headrace connector run` sets it.
 */
export interface Options {
  /** Address of the gateway, `host:port`. Default: the variable HEADRACE_GATEWAY, else `127.0.0.1:7433`. */
  readonly gateway?: string | undefined;
  /** The token by which the connector authenticates. Default: the variable HEADRACE_TOKEN, else none. */
  readonly token?: string | undefined;
  /**
   * A file that contains the token, and nothing else but white space around it, such as `/dev/fd/3`. It is read again before each
   * session, so that a token can be replaced. Excludes `token`. Default: the variable HEADRACE_TOKEN_FILE, which precedes
   * HEADRACE_TOKEN.
   */
  readonly tokenFile?: string | undefined;
  /**
   * Transport security; `false` for none. Default: TLS if the variable HEADRACE_TLS is 1, with the PEM files that
   * HEADRACE_TLS_CA, HEADRACE_TLS_CERT and HEADRACE_TLS_KEY name; else the connection is not encrypted.
   */
  readonly tls?: Tls | false | undefined;
  /**
   * Which deployment of the connector this is, the same after each restart. A newer session of an instance takes over from
   * the older one, which ends. Default: the variable HEADRACE_INSTANCE, else the name of the source or sink.
   */
  readonly instance?: string | undefined;
  /** Where the SDK logs. Default: {@link stderrLogger}. */
  readonly logger?: Logger | undefined;
  /** Receives counts. Default: {@link noMetrics}. */
  readonly metrics?: Metrics | undefined;
  /** Lets the connector report its own state and errors to operators. */
  readonly health?: Health | undefined;
  /** Abort it to stop the connector cleanly. */
  readonly signal?: AbortSignal | undefined;
  /** How long to gather messages for a frame, until the gateway sets another pace. Default: 5. */
  readonly lingerMs?: number | undefined;
  /** The size at which a frame is sent without waiting for more messages. Default: 256 KiB. */
  readonly frameBytes?: number | undefined;
  /** The number of messages at which a frame is sent without waiting for more. Default: 8192. */
  readonly frameMessages?: number | undefined;
  /** How long to wait for acknowledgements, or for a sink to finish, when the connector stops. Default: 10,000. */
  readonly drainMs?: number | undefined;
  /** How often a source is asked for its partitions. Default: 3,000. */
  readonly partitionPollMs?: number | undefined;
  /** How long to wait for the gateway's answer to Hello before trying again. Default: 10,000. */
  readonly welcomeMs?: number | undefined;
  /** The longest wait before the first reconnect; it doubles with each further one. Default: 50. */
  readonly firstBackoffMs?: number | undefined;
  /** The longest wait before any reconnect. Default: 2,000. */
  readonly maxBackoffMs?: number | undefined;
  /** After how long a method that does not return is reported; when the connector stops, it is abandoned then. Default: 10,000. */
  readonly stuckMs?: number | undefined;
  /** How long to wait, at the end, for methods that still run and then for `close`, together. Default: 10,000. */
  readonly closeMs?: number | undefined;
  /**
   * How much may be queued for a sink, for each part of a two-phase sink, before the SDK stops reading from the gateway. If
   * another part needs rows meanwhile, the excess goes to a temporary file. Default: 8 MiB.
   */
  readonly queueBytes?: number | undefined;
  /** How much of unfinished transactions to keep in memory for a batch-idempotent sink; the rest goes to a temporary file. Default: 64 MiB. */
  readonly holdBytes?: number | undefined;
}

/** The address of a gateway if none is given. */
export const DEFAULT_GATEWAY = "127.0.0.1:7433";

/** Options with every default filled in. */
export interface Settings {
  readonly gateway: string;
  readonly token: string | undefined;
  /** The file of the token; undefined for none. */
  readonly tokenFile: TokenFile | undefined;
  /** What secures a new connection: of the environment's files, what they contain now. */
  readonly tls: Tls | undefined;
  readonly instance: string;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly lingerMs: number;
  readonly frameBytes: number;
  readonly frameMessages: number;
  readonly drainMs: number;
  readonly partitionPollMs: number;
  readonly welcomeMs: number;
  readonly firstBackoffMs: number;
  readonly maxBackoffMs: number;
  readonly stuckMs: number;
  readonly closeMs: number;
  readonly queueBytes: number;
  readonly holdBytes: number;
}

const NUMBERS = {
  lingerMs: 5,
  frameBytes: 256 * 1024,
  frameMessages: 8192,
  drainMs: 10_000,
  partitionPollMs: 3_000,
  welcomeMs: 10_000,
  firstBackoffMs: 50,
  maxBackoffMs: 2_000,
  stuckMs: 10_000,
  closeMs: 10_000,
  queueBytes: 8 << 20,
  holdBytes: 64 << 20,
};

/** Fills in defaults; throws {@link InvalidOptionsError} if an option or a variable is invalid. */
export function settingsOf(options: Options, name: string, environ = process.env): Settings {
  const numbers = { ...NUMBERS };
  for (const key of Object.keys(NUMBERS) as (keyof typeof NUMBERS)[]) {
    const value = options[key] ?? NUMBERS[key];
    const least = key === "frameBytes" || key === "frameMessages" ? 1 : 0;
    if (!Number.isFinite(value) || value < least) {
      throw new InvalidOptionsError(`option ${key} is ${value}: a number of at least ${least} is needed`);
    }
    numbers[key] = value;
  }
  if (options.tls && (options.tls.cert === undefined) !== (options.tls.key === undefined)) {
    throw new InvalidOptionsError("mutual TLS needs both tls.cert and tls.key");
  }
  if (options.token !== undefined && options.tokenFile !== undefined) {
    throw new InvalidOptionsError(
      "options token and tokenFile exclude each other: give the token, or the file that contains it",
    );
  }
  const given = optionsOf(environ);
  const instance = options.instance ?? given.instance ?? name;
  if (options.logger === undefined) writesJson(environ);
  const logger = withFields(options.logger ?? stderrLogger, { instance });
  const tls = options.tls === undefined ? followedTls(environ, logger) : () => options.tls || undefined;
  const tokenFile = tokenFileOf(options, given, logger);
  return {
    ...numbers,
    gateway: options.gateway ?? given.gateway ?? DEFAULT_GATEWAY,
    get token() {
      return options.token ?? tokenFile?.token ?? given.token;
    },
    tokenFile,
    get tls() {
      return tls();
    },
    instance,
    logger,
    metrics: options.metrics ?? noMetrics,
  };
}

/** The same settings for a session: its log entries name it. */
export function ofSession(settings: Settings, session: string): Settings {
  // A copy would contain what secures connections now, not what does at the next one.
  const own = Object.create(settings) as { -readonly [Key in keyof Settings]: Settings[Key] };
  own.logger = withFields(settings.logger, { session });
  return own;
}

/** The file of the token that the options name, or else the environment. */
function tokenFileOf(options: Options, given: Given, logger: Logger): TokenFile | undefined {
  if (options.tokenFile !== undefined) return new TokenFile("option tokenFile", options.tokenFile, logger);
  if (options.token !== undefined || given.tokenFile === undefined) return undefined;
  return new TokenFile("HEADRACE_TOKEN_FILE", given.tokenFile, logger);
}
