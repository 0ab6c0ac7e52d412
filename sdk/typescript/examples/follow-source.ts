import { open, stat } from "node:fs/promises";

import { IDLE, PositionLostError, run, type ReplayableSource } from "@headrace/sdk";

const [path = "lines.txt"] = process.argv.slice(2);
const NEWLINE = 10;
const CHUNK_BYTES = 64 * 1024;

/** Follows a file. The sequence of a line is the offset of the byte after it, to which `read` can seek. */
class FollowedFile implements ReplayableSource {
  readonly name = "lines";
  readonly idleMs = 50;
  #offset = 0;

  async *read(_partition: string, { position, signal }: Parameters<ReplayableSource["read"]>[1]) {
    this.#offset = Number(position?.sequence ?? 0n);
    const file = await open(path);
    try {
      if ((await file.stat()).size < this.#offset) {
        throw new PositionLostError(`${path} is shorter than ${this.#offset} bytes`);
      }
      let chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      while (!signal.aborted) {
        const { bytesRead } = await file.read(chunk, 0, chunk.length, this.#offset);
        const lines = chunk.subarray(0, bytesRead);
        const last = lines.lastIndexOf(NEWLINE);
        if (last < 0 && bytesRead === chunk.length)
          chunk = Buffer.allocUnsafe(chunk.length * 2); // A long line.
        else if (last < 0) yield IDLE;
        for (let begin = 0; begin <= last;) {
          const end = lines.indexOf(NEWLINE, begin);
          this.#offset += end + 1 - begin;
          yield { value: lines.subarray(begin, end), sequence: this.#offset };
          begin = end + 1;
        }
      }
    } finally {
      await file.close();
    }
  }

  async backlog(): Promise<{ bytes: number }> {
    const { size } = await stat(path);
    return { bytes: size - this.#offset };
  }
}

process.exitCode = await run(new FollowedFile());
