import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";

import type { Logger } from "../src/logger.js";
import { readToken, TokenFile } from "../src/token_file.js";
import { readVectors } from "./vectors.js";

interface Vectors {
  contents: {
    cases: { name: string; hex: string; times?: number; token?: string; token_times?: number; problem?: string }[];
  };
  paths: { cases: { name: string; is?: string; path?: string; problem: string }[] };
}

const folder = mkdtempSync(join(tmpdir(), "headrace-"));
const warnings: string[] = [];
const silent = (): void => undefined;
const logger: Logger = {
  debug: silent,
  info: silent,
  warn: (text, fields) => {
    warnings.push(`${text} ${String(fields?.["error"])}`);
  },
  error: silent,
};

function written(content: string | Buffer, mode = 0o600): string {
  const path = join(folder, "token");
  rmSync(path, { force: true });
  writeFileSync(path, content, { mode });
  return path;
}

after(() => {
  rmSync(folder, { recursive: true });
});

describe("a file with a token", () => {
  const { contents, paths } = readVectors<Vectors>("tokens");
  for (const { name, hex, times = 1, token, token_times = 1, problem = "" } of contents.cases) {
    it(`contains one token, or is refused: ${name}`, () => {
      const path = written(Buffer.from(hex.repeat(times), "hex"));
      if (token === undefined) assert.throws(() => readToken(path), { message: `${path} ${problem}` });
      else assert.equal(readToken(path), token.repeat(token_times));
    });
  }

  for (const { name, is = "", path = join(folder, is), problem } of paths.cases) {
    it(`is a file, or is refused: ${name}`, async () => {
      if (is === "folder") mkdirSync(path);
      const server = createServer();
      if (is === "socket") await new Promise<void>((listens) => server.listen(path, listens));
      try {
        assert.throws(() => readToken(path), { message: `${path}: ${problem}` });
      } finally {
        server.close();
      }
    });
  }

  it("is waited for if it is a FIFO, with an end, and read once", async () => {
    const path = join(folder, "fifo");
    execFileSync("mkfifo", [path]);
    assert.throws(() => readToken(path, 0), {
      message: `${path}: nobody has written a token to it and closed it in time`,
    });
    const writer = spawn("sh", ["-c", `echo late > "$0"`, path], { stdio: "ignore" });
    const ended = new Promise((resolve) => writer.on("exit", resolve));
    assert.equal(readToken(path, 600_000), "late");
    await ended;
    assert.equal(readToken(path, 0), "late");
  });

  it("is read again, unless it contains no token, which is named once", () => {
    const file = new TokenFile("option tokenFile", written("first\n"), logger);
    assert.equal(file.refresh(), false);
    for (const [content, problem] of [
      ["", /is empty/],
      ["a\nb", /contains 2 lines/],
    ] as const) {
      warnings.length = 0;
      written(content);
      assert.deepEqual([file.refresh(), file.refresh(), file.token], [false, false, "first"]);
      assert.equal(warnings.length, 1);
      assert.match(warnings.join(), problem);
    }
    written("second");
    assert.deepEqual([file.refresh(), file.token], [true, "second"]);
  });

  it("is warned of if every user can read it", () => {
    warnings.length = 0;
    const path = written("secret", 0o644);
    assert.equal(new TokenFile("option tokenFile", path, logger).token, "secret");
    assert.match(warnings.join(), /every user of this machine can read the token: chmod o= /);
  });
});
