/** Requests to the gateway. A cookie, which this code cannot read, says who asks. */

import type { Me } from "../model/documents";
import { parseExactly } from "./exact";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const TIMEOUT_MS = 10_000;

export async function request(path: string, init: RequestInit = {}, timeoutMs = TIMEOUT_MS): Promise<unknown> {
  const response = await fetch(`/api/v1/${path}`, { ...init, signal: AbortSignal.timeout(timeoutMs) });
  await refuse(response);
  const text = await response.text();
  return response.headers.get("content-type")?.includes("json") ? parseExactly(text) : null;
}

/** Raises the error that a response is, if it is one. */
async function refuse(response: Response): Promise<void> {
  if (response.ok) return;
  const isJson = response.headers.get("content-type")?.includes("json");
  const detail = isJson ? ((await response.json()) as { detail?: string }).detail : undefined;
  throw new ApiError(response.status, detail ?? `The gateway answered ${response.status}`);
}

/** Passes on each event of a path until it ends. Unlike an EventSource, it says why it was refused, and does not return. */
export async function follow(
  path: string,
  signal: AbortSignal,
  take: (kind: string, data: unknown) => void,
): Promise<void> {
  const response = await fetch(`/api/v1/${path}`, { signal });
  await refuse(response);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
    if (done) return;
    const events = (waiting + value).split("\n\n");
    waiting = events.pop() ?? "";
    for (const event of events) {
      const fields = new Map(event.split("\n").map((line) => [line.split(": ", 1)[0], line.replace(/^\w*: /, "")]));
      take(fields.get("event") ?? "", parseExactly(fields.get("data") ?? "null"));
    }
  }
}

export async function post(path: string, body: unknown, timeoutMs = TIMEOUT_MS): Promise<unknown> {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body) }, timeoutMs);
}

/** Who is signed in, and with which rights. */
export async function me(): Promise<Me> {
  return (await request("me")) as Me;
}

export async function signIn(token: string): Promise<void> {
  await post("sign-in", { token });
}

export async function signOut(): Promise<void> {
  await post("sign-out", {});
}
