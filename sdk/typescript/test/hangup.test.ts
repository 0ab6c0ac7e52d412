import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";

const LIBRARY = new URL("../src/index.js", import.meta.url).href;

/** Imports the library, and hangs up before anything else; prints a line if that did not end the process. */
const PROGRAM = `
import "${LIBRARY}";
process.kill(process.pid, "SIGHUP");
setTimeout(() => console.log("runs on"), 50);
`;

function imported(environ: Record<string, string>): { signal: NodeJS.Signals | null; stdout: string } {
  const env = { PATH: process.env["PATH"], ...environ };
  return spawnSync(process.execPath, ["--input-type=module", "-e", PROGRAM], { env, encoding: "utf8" });
}

describe("SIGHUP before the connector runs", () => {
  it("does not end a program that headrace has started", () => {
    const { signal, stdout } = imported({ HEADRACE_INSTANCE: "orders" });
    assert.deepEqual([signal, stdout], [null, "runs on\n"]);
  });

  it("is left to any other program", () => {
    assert.equal(imported({}).signal, "SIGHUP");
  });
});
