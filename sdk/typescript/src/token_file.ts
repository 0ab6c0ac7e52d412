import { closeSync, constants, fstatSync, openSync, readSync, statSync } from "node:fs";

import { InvalidOptionsError } from "./errors.js";
import type { Logger } from "./logger.js";

/** The size of the largest file with a token. */
const MAX_TOKEN_BYTES = 4096;
/** How long to wait until whoever writes to a pipe has written the token and closed it. */
const PIPE_WITHIN_MS = 30_000;
const PIPE_POLL_MS = 10;

const DESCRIPTOR = /^(\/dev|\/proc\/self)\/fd\/\d+$|^\/dev\/stdin$/;
const EVERYONE_READS = 0o004;

/** What pipes contained, by path, device and inode: they can be read once only, and the number of a descriptor may be used again. */
const readOnce = new Map<string, Buffer>();

/** A file that contains a token, and is read again before each session. */
export class TokenFile {
  readonly #path: string;
  readonly #logger: Logger;
  #token: string;
  #problem: string | undefined;

  /**
   * @param name - What names the file: an option or a variable.
   * @param path - The file.
   * @param logger - Where to name what is wrong with it later.
   * @throws {@link InvalidOptionsError} if it does not contain exactly one token.
   */
  constructor(name: string, path: string, logger: Logger) {
    this.#path = path;
    this.#logger = logger;
    try {
      this.#token = readToken(path);
    } catch (error) {
      throw new InvalidOptionsError(`${name}: ${textOf(error)}`, { cause: error });
    }
    if (!DESCRIPTOR.test(path)) {
      const found = statSync(path, { throwIfNoEntry: false });
      if (found?.isFile() && (found.mode & EVERYONE_READS) !== 0) {
        logger.warn(`every user of this machine can read the token: chmod o= ${path}`);
      }
    }
  }

  /** The last token that was read. */
  get token(): string {
    return this.#token;
  }

  /**
   * Reads the file again. While it contains no token, the last one stays in use, and each problem is logged once.
   *
   * @returns Whether the token is another one now.
   */
  refresh(): boolean {
    const before = this.#token;
    try {
      this.#token = readToken(this.#path);
      this.#problem = undefined;
    } catch (error) {
      const problem = textOf(error);
      if (problem !== this.#problem) {
        this.#logger.warn("the token that the file contained before stays in use", { error: problem });
      }
      this.#problem = problem;
    }
    return this.#token !== before;
  }
}

/**
 * The token that a file contains, without the white space around it.
 *
 * @param path - The file.
 * @param pipeWithinMs - How long to wait for whoever writes to a pipe.
 * @throws An Error that names the file and what is wrong, and never its contents.
 */
export function readToken(path: string, pipeWithinMs = PIPE_WITHIN_MS): string {
  const content = contentOf(path, pipeWithinMs);
  const token = content.toString("latin1").replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "");
  if (content.length > MAX_TOKEN_BYTES) throw new Error(`${path} is too large for a token: more than 4,096 bytes`);
  if (token === "") throw new Error(`${path} is empty: write the token into it, and nothing else`);
  if (!/^[ -~]+$/.test(token)) {
    const lines = token.split(/\r\n|\r|\n/).length;
    const what = lines > 1 ? `${lines} lines` : "bytes that no token contains";
    throw new Error(`${path} contains ${what}: write one token into it, and nothing else`);
  }
  return token;
}

/** Up to one byte more than a file with a token may contain. */
function contentOf(path: string, pipeWithinMs: number): Buffer {
  let file: number | undefined;
  try {
    // A socket cannot be opened, not even by the number of its descriptor.
    if (statSync(path, { throwIfNoEntry: false })?.isSocket()) throw new Error("it is a socket, and no file");
    // A FIFO that nobody writes to must not block the call.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const found = fstatSync(file);
    if (found.isDirectory()) throw new Error("it is a folder, and no file");
    if (found.isFile()) return read(file, MAX_TOKEN_BYTES + 1);
    if (!found.isFIFO()) throw new Error("it is a device, and no file");
    const pipe = `${path} ${found.dev} ${found.ino}`;
    const known = readOnce.get(pipe);
    if (known !== undefined) return known;
    const content = pipeContent(file, path, pipeWithinMs);
    readOnce.set(pipe, content);
    return content;
  } catch (error) {
    throw new Error(`${path}: ${reason(path, error)}`, { cause: error });
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function read(file: number, most: number): Buffer {
  const content = Buffer.alloc(most);
  let length = 0;
  for (let count = -1; count !== 0 && length < most; length += count) {
    count = readSync(file, content, length, most - length, null);
  }
  return content.subarray(0, length);
}

/** Reads a pipe until it is closed by whoever writes to it. Nothing else runs meanwhile: nothing can, without the token. */
function pipeContent(file: number, path: string, withinMs: number): Buffer {
  const deadline = performance.now() + withinMs;
  const parts: Buffer[] = [];
  for (let length = 0; length <= MAX_TOKEN_BYTES;) {
    const part = available(file, MAX_TOKEN_BYTES + 1 - length);
    // Reading a FIFO that nobody has opened yet ends at once.
    if (part?.length === 0 && (length > 0 || DESCRIPTOR.test(path))) break;
    if (part !== undefined && part.length > 0) {
      parts.push(part);
      length += part.length;
      continue;
    }
    if (performance.now() >= deadline) throw new Error("nobody has written a token to it and closed it in time");
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PIPE_POLL_MS);
  }
  return Buffer.concat(parts);
}

/** What a pipe has now: nothing at its end, undefined if more may follow. */
function available(file: number, most: number): Buffer | undefined {
  const part = Buffer.alloc(most);
  try {
    return part.subarray(0, readSync(file, part, 0, most, null));
  } catch (error) {
    if (codeOf(error) === "EAGAIN") return undefined;
    throw error;
  }
}

function reason(path: string, error: unknown): string {
  if (codeOf(error) === "ENOENT") {
    return DESCRIPTOR.test(path) ? "this process has no such file descriptor" : "there is no such file";
  }
  return textOf(error);
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
