/** Fields of a log entry, such as the stream that it concerns. */
export type LogFields = Readonly<Record<string, unknown>>;

/**
 * Where the SDK logs. `console` and winston's loggers have this shape; for pino, swap the two arguments.
 *
 * Each text is constant, and what varies is in the fields.
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

/**
 * Writes a line of JSON to stderr for each entry, without entries for debugging, and without information where HEADRACE_VERBOSE
 * is 0. The default of the SDK.
 */
export const jsonLogger: Logger = {
  debug: () => undefined,
  info: (text, fields) => {
    if (process.env["HEADRACE_VERBOSE"] !== "0") write("info", text, fields);
  },
  warn: (text, fields) => {
    write("warn", text, fields);
  },
  error: (text, fields) => {
    write("error", text, fields);
  },
};

function write(level: string, text: string, fields: LogFields | undefined): void {
  const entry = { time: new Date().toISOString(), level, logger: "headrace", text, ...fields };
  const plain = (_: string, value: unknown): unknown => (typeof value === "bigint" ? value.toString() : value);
  process.stderr.write(`${JSON.stringify(entry, plain)}\n`);
}
