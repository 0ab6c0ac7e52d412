import { useEffect, useState } from "react";
import { follow } from "../client/api";
import type { MessagePreview, Sample } from "../model/documents";
import { count } from "../model/format";
import type { Form } from "../model/preview";
import { FormField, Message } from "./message";

const KEPT = 50;

/** A sample of a stream's messages, newest first, while somebody wants to see it. */
export function Peek({ stream }: { stream: string }) {
  const [on, setOn] = useState(false);
  const [form, setForm] = useState<Form>("auto");
  const [messages, setMessages] = useState<MessagePreview[]>([]);
  const [notShown, setNotShown] = useState(0);
  const [ended, setEnded] = useState("");

  useEffect(() => {
    if (!on) return;
    const leaving = new AbortController();
    const end = (reason: string): void => {
      if (leaving.signal.aborted) return;
      leaving.abort();
      setOn(false);
      setEnded(reason);
    };
    void follow(`streams/${stream}/peek`, leaving.signal, (kind, data) => {
      if (kind === "end") end((data as { reason: string }).reason);
      if (kind !== "sample") return;
      const sample = data as Sample;
      setNotShown(sample.not_shown);
      if (sample.messages.length) {
        setMessages((before) => [...sample.messages.toReversed(), ...before].slice(0, KEPT));
      }
    })
      .then(() => end("The connection was closed."))
      .catch((refused: unknown) => end(refused instanceof Error ? refused.message : String(refused)));
    return () => leaving.abort();
  }, [on, stream]);

  return (
    <section className="peek" aria-label={`Messages of ${stream}`}>
      <div className="tools">
        <button
          type="button"
          onClick={() => {
            setEnded("");
            if (!on) setMessages([]);
            setOn(!on);
          }}
        >
          {on ? "Stop peeking" : "Peek at messages"}
        </button>
        <FormField value={form} onChange={setForm} />
        <span className="muted" role="status">
          {on && `${count(notShown)} not shown`}
        </span>
      </div>
      {ended && <p role="alert">{ended}</p>}
      <ol className="messages" tabIndex={0}>
        {messages.map((message) => (
          <li key={`${message.epoch}:${message.sequence}`}>
            <Message
              place={message.epoch ? `${message.epoch}:${message.sequence}` : String(message.sequence)}
              message={message}
              form={form}
            />
          </li>
        ))}
      </ol>
    </section>
  );
}
