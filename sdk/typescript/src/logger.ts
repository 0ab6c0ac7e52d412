import { InvalidOptionsError } from "./errors.js";

/** Fields of a log entry, such as the stream that it concerns. */
export type LogFields = Readonly<Record<string, unknown>>;

/**
 * Where the SDK logs. `console` and winston's loggers have this shape; for pino, swap the two arguments.
 *
 * What varies is in the fields, and each text is constant, except where it names a method that does not return.
 */
export interface Logger {
  /** Logs what helps to debug the SDK. */
  debug(text: string, fields?: LogFields): void;
  /** Logs what happens normally: a session begins, a stream is read. */
  info(text: string, fields?: LogFields): void;
  /** Logs what the SDK handles, such as a lost session. */
  warn(text: string, fields?: LogFields): void;
  /** Logs what ends the connector, or loses nothing but needs attention. */
  error(text: string, fields?: LogFields): void;
}

type Environ = Readonly<Record<string, string | undefined>>;
type Level = "info" | "warning" | "error";

const FORMAT_VARIABLE = "HEADRACE_LOG_FORMAT";
const FORMATS = ["console", "json"];
const OFF = ["", "0", "false", "no", "off"];
/** What would let a text control a terminal, or span lines. */
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/**
 * Writes a line to stderr for each entry, in the schema of all parts of Headrace, without entries for debugging: as JSON, or for
 * people where HEADRACE_LOG_FORMAT is `console`. Where that variable is set, it writes information only if HEADRACE_VERBOSE is 1;
 * otherwise unless HEADRACE_VERBOSE is 0. The default of the SDK.
 */
export const stderrLogger: Logger = {
  debug: () => undefined,
  info: (text, fields) => {
    if (isVerbose(process.env)) write("info", text, fields);
  },
  warn: (text, fields) => {
    write("warning", text, fields);
  },
  error: (text, fields) => {
    write("error", text, fields);
  },
};

/** The same logger, whose entries also have fields. The fields of an entry itself win. */
export function withFields(logger: Logger, more: LogFields): Logger {
  return {
    debug: (text, fields) => {
      logger.debug(text, { ...more, ...fields });
    },
    info: (text, fields) => {
      logger.info(text, { ...more, ...fields });
    },
    warn: (text, fields) => {
      logger.warn(text, { ...more, ...fields });
    },
    error: (text, fields) => {
      logger.error(text, { ...more, ...fields });
    },
  };
}

/**
 * Whether the default logger writes JSON.
 *
 * @throws {@link InvalidOptionsError} if HEADRACE_LOG_FORMAT names a format that does not exist.
 */
export function writesJson(environ: Environ): boolean {
  const format = environ[FORMAT_VARIABLE] || "json";
  if (!FORMATS.includes(format)) {
    throw new InvalidOptionsError(`${FORMAT_VARIABLE}: ${JSON.stringify(format)} is not ${FORMATS.join(" or ")}`);
  }
  return format === "json";
}

/** A line of JSON: the four fields that every line has, and then the fields of the entry. */
export function jsonLine(at: Date, level: Level, text: string, fields: LogFields = {}): string {
  const timestamp = at.toISOString().replace("Z", "000Z");
  const head = { timestamp, level, logger: "headrace.sdk", event: text };
  const plain = (_: string, value: unknown): unknown => (typeof value === "bigint" ? value.toString() : value);
  return `${JSON.stringify({ ...head, ...fields, ...head }, plain)}\n`;
}

/** A line for people, such as `2026-01-31T12:00:00.250Z WARNING: a position is lost stream=orders/0`. */
export function consoleLine(at: Date, level: Level, text: string, fields: LogFields = {}): string {
  const named = Object.entries(fields).filter(([, value]) => value !== undefined);
  const shown = named.map(([name, value]) => ` ${name}=${fieldText(value)}`);
  return `${at.toISOString()} ${level.toUpperCase()}: ${printable(text)}${shown.join("")}\n`;
}

function fieldText(value: unknown): string {
  const plain =
    typeof value === "string" ? value : typeof value === "bigint" ? value.toString() : JSON.stringify(value);
  return /^[^\s"'=]+$/.test(plain) && printable(plain) === plain ? plain : JSON.stringify(plain);
}

function printable(text: string): string {
  return text.replace(CONTROL, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function isVerbose(environ: Environ): boolean {
  const said = environ["HEADRACE_VERBOSE"];
  if (!environ[FORMAT_VARIABLE]) return said !== "0";
  return !OFF.includes((said ?? "").trim().toLowerCase());
}

function write(level: Level, text: string, fields: LogFields | undefined): void {
  const line = process.env[FORMAT_VARIABLE] === "console" ? consoleLine : jsonLine;
  process.stderr.write(line(new Date(), level, text, fields));
}
