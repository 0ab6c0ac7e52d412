import { useState } from "react";
import { signIn } from "../client/api";
import type { Feed } from "../client/feed";
import type { Me } from "../model/documents";

export function SignIn({ feed, me }: { feed: Feed; me: Me | null }) {
  const [token, setToken] = useState("");
  const [refusal, setRefusal] = useState("");
  const lacking = me?.name ? `The token ${me.name} lacks the right admin. Sign in with another one.` : "";

  async function submit(): Promise<void> {
    try {
      await signIn(token);
      setToken("");
      await feed.connect();
    } catch (error) {
      setRefusal(error instanceof Error ? error.message : String(error));
    }
  }

  return (
    <main className="sign-in">
      <h1>Headrace</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <label className="field">
          Token
          <input
            type="password"
            value={token}
            onChange={(event) => setToken(event.target.value)}
            required
            autoComplete="off"
          />
        </label>
        <button type="submit" className="primary">
          Sign in
        </button>
        <p role="alert" className="error">
          {refusal || lacking}
        </p>
        <p className="muted">
          A token with the right <code>admin</code>; with <code>control</code>, it may also pause and resume.
        </p>
      </form>
    </main>
  );
}
