import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import { Browser, type BrowserLimits } from "./browser.js";
import type { Ring } from "./ring.js";

/** How the server is reached, and by how many. */
export interface ServerOptions extends BrowserLimits {
  readonly host: string;
  readonly port: number;
  /** How many browsers may be connected. */
  readonly maxBrowsers: number;
}

const PAGE = new URL("../../page/", import.meta.url);
const FILES: Readonly<Record<string, readonly [name: string, type: string]>> = {
  "/": ["index.html", "text/html; charset=utf-8"],
  "/page.js": ["page.js", "text/javascript; charset=utf-8"],
};
const SAFETY = {
  "content-security-policy": "default-src 'none'; connect-src 'self'; script-src 'self'; style-src 'unsafe-inline'",
  "x-content-type-options": "nosniff",
};

/** Serves a page, and the events of a ring to the browsers that show it. */
export class EventServer implements AsyncDisposable {
  #browsers = 0;

  private constructor(
    private readonly server: Server,
    private readonly ring: Ring,
    private readonly options: ServerOptions,
  ) {}

  /** Begins to listen; rejects if the address cannot be used. */
  static async start(ring: Ring, options: ServerOptions): Promise<EventServer> {
    const server = createServer();
    const found = new EventServer(server, ring, options);
    server.on("request", (request, response) => {
      found.#answer(request, response).catch(() => response.destroy());
    });
    server.listen(options.port, options.host);
    await once(server, "listening");
    return found;
  }

  /** Where the page is. */
  get url(): string {
    const { address, family, port } = this.server.address() as AddressInfo;
    return `http://${family === "IPv6" ? `[${address}]` : address}:${port}/`;
  }

  /** Disconnects the browsers. They reconnect by themselves once there is a server again. */
  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.server, "close");
    this.server.close();
    this.server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://host");
    if (request.method !== "GET") {
      response.writeHead(405, { allow: "GET" }).end();
    } else if (pathname === "/events") {
      // A page that has connected anew, and not the browser by itself, has no header.
      this.#connect(response, request.headers["last-event-id"]?.toString() ?? searchParams.get("after") ?? "");
    } else if (pathname in FILES) {
      const [name, type] = FILES[pathname];
      const content = await readFile(new URL(name, PAGE));
      response.writeHead(200, { "content-type": type, "cache-control": "no-cache", ...SAFETY }).end(content);
    } else {
      response.writeHead(404).end();
    }
  }

  #connect(response: ServerResponse, lastId: string): void {
    if (this.#browsers >= this.options.maxBrowsers) {
      response.writeHead(503, { "retry-after": "5" }).end();
      return;
    }
    this.#browsers += 1;
    response.on("close", () => {
      this.#browsers -= 1;
    });
    const next = lastId === "" ? undefined : this.ring.after(lastId);
    new Browser(response, this.ring, next ?? this.ring.oldest, lastId !== "" && next === undefined, this.options);
  }
}
