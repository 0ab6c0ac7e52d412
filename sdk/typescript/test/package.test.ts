import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import * as sdk from "../src/index.js";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const read = (name: string): string => readFileSync(join(ROOT, name), "utf8");

describe("the package", () => {
  it("has one version", () => {
    const { version } = JSON.parse(read("package.json")) as { version: string };
    assert.equal(sdk.VERSION, version);
    assert.match(read("CHANGELOG.md"), new RegExp(`^## ${version}$`, "m"));
  });

  it("shows its examples in the README as they are", () => {
    const sink = read("examples/file-sink.ts");
    const methods = sink.slice(sink.indexOf("  async stage("), sink.indexOf("\n  close(): void"));
    for (const shown of [read("examples/lines-source.ts"), methods]) {
      assert.ok(read("README.md").includes(`\`\`\`ts\n${shown}\`\`\``), shown);
    }
  });

  it("exports what users need, and nothing else", () => {
    assert.deepEqual(Object.keys(sdk).sort(), [
      "CLOSE",
      "DEFAULT_GATEWAY",
      "GONE",
      "GatewayRefusedError",
      "GatewayUnavailableError",
      "HeadraceError",
      "Health",
      "IDLE",
      "InvalidMessageError",
      "InvalidOptionsError",
      "InvalidOutcomesError",
      "InvalidSinkError",
      "InvalidSourceError",
      "MessageTooLargeError",
      "NULL_LENGTH",
      "NULL_TIME",
      "NotPermittedError",
      "PositionLostError",
      "Rows",
      "SessionEndedError",
      "SessionTakenOverError",
      "SinkFailedError",
      "SourceFailedError",
      "VERSION",
      "WRITTEN",
      "noMetrics",
      "run",
      "start",
      "stderrLogger",
    ]);
  });
});
