import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { leadsHere } from "../src/wire/address.js";
import { through } from "../src/wire/ending.js";

const environ = { https_proxy: "http://me:secret@proxy.example:3128", no_proxy: "other.example, .internal" };

describe("a proxy", () => {
  it("is not used for this machine", () => {
    for (const gateway of [
      "localhost:1",
      "127.0.0.1:1",
      "127.1.2.3:1",
      "[::1]:1",
      "dns:///localhost:1",
      "unix:/tmp/s",
    ]) {
      assert.equal(leadsHere(gateway), true, gateway);
      assert.equal(through(gateway, environ), "", gateway);
    }
    assert.equal(leadsHere("127.example.org:1"), false);
  });

  it("is named in errors, without its password", () => {
    assert.equal(
      through("gateway.example:7433", environ),
      " through the proxy http://proxy.example:3128 (https_proxy)",
    );
    assert.equal(through("gateway.internal:7433", environ), "");
    assert.equal(through("gateway.example:7433", {}), "");
  });
});
