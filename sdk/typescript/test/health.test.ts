import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Health } from "../src/health.js";
import { ConnectorState } from "./generated.js";

const stateOf = (health: Health): [ConnectorState, string] => {
  const report = health.takeReport();
  assert.ok(report);
  return [report.state, report.reason];
};

describe("the health of a connector", () => {
  it("is running when a session has begun, unless the connector says something else", () => {
    const health = new Health();
    health.sessionBegan();
    assert.deepEqual(stateOf(health), [ConnectorState.RUNNING, ""]);
    for (const [say, state] of [
      ["connecting", ConnectorState.CONNECTING],
      ["waiting", ConnectorState.WAITING],
      ["degraded", ConnectorState.DEGRADED],
    ] as const) {
      health[say]("the broker restarts");
      health.sessionBegan();
      assert.deepEqual(stateOf(health), [state, "the broker restarts"]);
    }
    health.running();
    assert.deepEqual(stateOf(health), [ConnectorState.RUNNING, ""]);
  });

  it("may be said before the first session", () => {
    const health = new Health();
    health.connecting();
    health.sessionBegan();
    assert.deepEqual(stateOf(health), [ConnectorState.CONNECTING, ""]);
  });

  it("takes what was thrown as a reason, and cuts it to what the protocol allows", () => {
    const health = new Health();
    health.degraded(new TypeError("é".repeat(5000)));
    const [, reason] = stateOf(health);
    assert.match(reason, /^TypeError: é+$/);
    assert.ok(Buffer.byteLength(reason) <= 4096);
  });

  it("is news only when it changes, and notifies of each change", () => {
    const health = new Health();
    let changes = 0;
    health.onChange(() => {
      changes += 1;
    });
    health.waiting("for the database");
    health.waiting("for the database");
    assert.equal(changes, 1);
    assert.ok(health.takeReport());
    assert.equal(health.takeReport(), undefined);
  });

  it("is reported by a heartbeat although there is no news", () => {
    const health = new Health();
    health.waiting("for the database");
    health.takeReport();
    assert.equal(health.takeReport(true)?.reason, "for the database");
  });

  it("keeps the last hundred errors until they are reported", () => {
    const health = new Health();
    for (let i = 0; i < 150; i++) health.survived(`error ${i}`, "orders/0");
    const { errors } = health.takeReport()!;
    assert.deepEqual([errors.length, errors[0].message, errors[0].stream], [100, "error 50", "orders/0"]);
  });
});
