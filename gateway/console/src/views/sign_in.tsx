import { useState } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";
import { signIn, type Me } from "../client/api";
import type { Feed } from "../client/feed";

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
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <TextField type="password" value={token} onChange={setToken} isRequired autoComplete="off">
          <Label>Token</Label>
          <Input />
        </TextField>
        <Button type="submit" className="primary">
          Sign in
        </Button>
        <p role="alert" className="error">
          {refusal || lacking}
        </p>
        <p className="muted">
          A token with the right <code>admin</code>; with <code>control</code>, it may also pause and resume.
        </p>
      </Form>
    </main>
  );
}
