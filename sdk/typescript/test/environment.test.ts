import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";

import { InvalidOptionsError } from "../src/errors.js";
import type { LogFields } from "../src/logger.js";
import { settingsOf, type Options } from "../src/options.js";

const folder = mkdtempSync(join(tmpdir(), "headrace-"));
const pem = (name: string): string => {
  const path = join(folder, name);
  writeFileSync(path, name);
  return path;
};
const settings = (environ: Record<string, string>, options: Options = {}): ReturnType<typeof settingsOf> =>
  settingsOf(options, "orders", environ);

after(() => {
  rmSync(folder, { recursive: true });
});

describe("the environment", () => {
  it("says nothing: a gateway on this machine, without TLS", () => {
    const { gateway, token, instance, tls } = settings({
      HEADRACE_GATEWAY: "",
      HEADRACE_TLS: "0",
      HEADRACE_TLS_CA: "",
    });
    assert.deepEqual([gateway, token, instance, tls], ["127.0.0.1:7433", undefined, "orders", undefined]);
  });

  it("names the gateway, the token, the instance, and the files of TLS", () => {
    const { gateway, token, instance, tls } = settings({
      HEADRACE_GATEWAY: "far:1",
      HEADRACE_TOKEN: "secret",
      HEADRACE_INSTANCE: "blue",
      HEADRACE_TLS: "1",
      HEADRACE_TLS_CA: pem("ca"),
      HEADRACE_TLS_CERT: pem("cert"),
      HEADRACE_TLS_KEY: pem("key"),
    });
    assert.deepEqual([gateway, token, instance], ["far:1", "secret", "blue"]);
    assert.deepEqual(tls, { ca: Buffer.from("ca"), cert: Buffer.from("cert"), key: Buffer.from("key") });
  });

  it("asks for TLS without naming files, and by naming one", () => {
    assert.deepEqual(settings({ HEADRACE_TLS: "1" }).tls, {});
    assert.deepEqual(settings({ HEADRACE_TLS_CA: pem("ca") }).tls, { ca: Buffer.from("ca") });
  });

  it("keeps the files of TLS that it has while somebody replaces them, and names why", () => {
    const ca = pem("ca");
    const warnings: string[] = [];
    const silent = (): void => undefined;
    const warn = (text: string, fields?: LogFields): void => {
      warnings.push(`${text}: ${String(fields?.["error"])}`);
    };
    const given = settings({ HEADRACE_TLS_CA: ca }, { logger: { debug: silent, info: silent, warn, error: silent } });
    assert.deepEqual(given.tls, { ca: Buffer.from("ca") });
    rmSync(ca);
    assert.deepEqual(given.tls, { ca: Buffer.from("ca") });
    assert.match(warnings.join(), /the old ones stay in force.*HEADRACE_TLS_CA.*ENOENT/);
  });

  it("yields to what the program sets", () => {
    const environ = {
      HEADRACE_GATEWAY: "far:1",
      HEADRACE_TOKEN: "secret",
      HEADRACE_INSTANCE: "blue",
      HEADRACE_TLS: "1",
      HEADRACE_TLS_CA: join(folder, "no such file"),
    };
    const options = { gateway: "near:1", token: "own", instance: "green", tls: { ca: "own" } };
    const { gateway, token, instance, tls } = settings(environ, options);
    assert.deepEqual([gateway, token, instance, tls], ["near:1", "own", "green", { ca: "own" }]);
    assert.equal(settings(environ, { tls: false }).tls, undefined);
  });

  it("names a file that contains the token, which precedes HEADRACE_TOKEN, and yields to what the program sets", () => {
    const environ = { HEADRACE_TOKEN: "variable", HEADRACE_TOKEN_FILE: pem("of the variable") };
    assert.equal(settings(environ).token, "of the variable");
    assert.equal(settings(environ, { token: "own" }).token, "own");
    assert.equal(settings(environ, { tokenFile: pem("of the option") }).token, "of the option");
    assert.throws(
      () => settings({}, { token: "own", tokenFile: pem("other") }),
      /token and tokenFile exclude each other/,
    );
  });

  for (const [what, environ, text] of [
    [
      "a file without a token",
      { HEADRACE_TOKEN_FILE: join(folder, "none") },
      /HEADRACE_TOKEN_FILE: .*none: there is no such file/,
    ],
    [
      "a file that cannot be read",
      { HEADRACE_TLS_CA: join(folder, "none") },
      /HEADRACE_TLS_CA names cannot be read.*ENOENT/,
    ],
    [
      "a certificate without its key",
      { HEADRACE_TLS_CERT: pem("cert") },
      /both HEADRACE_TLS_CERT and HEADRACE_TLS_KEY/,
    ],
    ["another value of HEADRACE_TLS", { HEADRACE_TLS: "yes" }, /HEADRACE_TLS is "yes": 0 or 1 is needed/],
  ] as const) {
    it(`is refused with ${what}`, () => {
      assert.throws(
        () => settings(environ),
        (error) => error instanceof InvalidOptionsError && text.test(error.message),
      );
    });
  }
});
