import { open } from "node:fs/promises";

import { run, type ReplayableSource } from "@headrace/sdk";

const [path = "lines.txt"] = process.argv.slice(2);
const NEWLINE = 10;

/** Streams the lines of a file. The sequence of a line is the offset of the byte after it, to which `read` can seek. */
const lines: ReplayableSource = {
  name: "lines",

  async *read(_partition, { position, signal }) {
    let offset = Number(position?.sequence ?? 0n);
    let rest = Buffer.alloc(0);
    const file = await open(path);
    for await (const chunk of file.createReadStream({ start: offset, signal }) as AsyncIterable<Buffer>) {
      const data = Buffer.concat([rest, chunk]);
      let begin = 0;
      for (let end = data.indexOf(NEWLINE); end >= 0; end = data.indexOf(NEWLINE, begin)) {
        offset += end + 1 - begin;
        yield { value: data.subarray(begin, end), sequence: offset };
        begin = end + 1;
      }
      rest = data.subarray(begin); // A line without an end may still be growing.
    }
  },

  /** Where a source ends the connection that it holds. */
  close() {
    console.error("the source is closed");
  },
};

process.exitCode = await run(lines);
