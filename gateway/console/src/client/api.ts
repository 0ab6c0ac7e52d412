/** Requests to the gateway. A cookie, which this code cannot read, says who asks. */

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export interface Me {
  name: string | null;
  rights: string[];
  tokens_needed: boolean;
}

const TIMEOUT_MS = 10_000;

export async function request(path: string, init: RequestInit = {}): Promise<unknown> {
  const response = await fetch(`/api/v1/${path}`, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) });
  const text = await response.text();
  const body: unknown = response.headers.get("content-type")?.includes("json") ? JSON.parse(text) : null;
  if (!response.ok) {
    const detail = (body as { detail?: string } | null)?.detail;
    throw new ApiError(response.status, detail ?? `The gateway answered ${response.status}`);
  }
  return body;
}

export async function post(path: string, body: unknown): Promise<unknown> {
  return request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
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
