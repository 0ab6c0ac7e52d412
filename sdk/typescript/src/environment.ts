import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";

import { describe, InvalidOptionsError } from "./errors.js";
import type { Logger } from "./logger.js";
import type { Tls } from "./tls.js";

type Environ = Readonly<Record<string, string | undefined>>;

/** The settings that the environment contains, besides transport security. */
export interface Given {
  readonly gateway: string | undefined;
  readonly token: string | undefined;
  readonly tokenFile: string | undefined;
  readonly instance: string | undefined;
}

/**
 * The options that the environment gives: how to reach the gateway, and which deployment this is. `headrace connector run`
 * sets these variables. An empty variable counts as absent.
 */
export function optionsOf(environ: Environ): Given {
  return {
    gateway: environ["HEADRACE_GATEWAY"] || undefined,
    token: environ["HEADRACE_TOKEN"] || undefined,
    tokenFile: environ["HEADRACE_TOKEN_FILE"] || undefined,
    instance: environ["HEADRACE_INSTANCE"] || undefined,
  };
}

/**
 * Transport security as the environment asks for it: HEADRACE_TLS is 1, or one of the files is named.
 *
 * @throws {@link InvalidOptionsError} if a file cannot be read, or HEADRACE_TLS is neither 0 nor 1.
 */
export function tlsOf(environ: Environ): Tls | undefined {
  const wanted = environ["HEADRACE_TLS"] || "0";
  if (wanted !== "0" && wanted !== "1") {
    throw new InvalidOptionsError(`HEADRACE_TLS is ${JSON.stringify(wanted)}: 0 or 1 is needed`);
  }
  const ca = read(environ, "HEADRACE_TLS_CA");
  const cert = read(environ, "HEADRACE_TLS_CERT");
  const key = read(environ, "HEADRACE_TLS_KEY");
  if ((cert === undefined) !== (key === undefined)) {
    throw new InvalidOptionsError("mutual TLS needs both HEADRACE_TLS_CERT and HEADRACE_TLS_KEY");
  }
  if (wanted === "0" && ca === undefined && cert === undefined) return undefined;
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
}

/**
 * The same, for each new connection: files may be replaced while the connector runs. Those that cannot be used, for instance
 * because they are being replaced, change nothing, and are named in the log.
 *
 * @throws {@link InvalidOptionsError} as `tlsOf`.
 */
export function followedTls(environ: Environ, logger: Logger): () => Tls | undefined {
  let last = tlsOf(environ);
  let isFirst = true;
  return () => {
    if (isFirst) {
      isFirst = false;
      return last;
    }
    try {
      const fresh = tlsOf(environ);
      createSecureContext({ ...fresh });
      last = fresh;
    } catch (error) {
      logger.warn("the TLS files cannot be used; the old ones stay in force", { error: describe(error) });
    }
    return last;
  };
}

function read(environ: Environ, name: string): Buffer | undefined {
  const path = environ[name];
  if (!path) return undefined;
  try {
    return readFileSync(path);
  } catch (error) {
    throw new InvalidOptionsError(`the file that ${name} names cannot be read: ${describe(error)}`, { cause: error });
  }
}
