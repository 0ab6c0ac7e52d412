import { useEffect, useState } from "react";
import { request } from "../client/api";
import type { DeadLetter, DeadLetters, Status } from "../model/documents";
import { count, dateAndTime } from "../model/format";
import type { Form } from "../model/preview";
import { replaying, sourcesToReplay, type Replaying } from "../model/supervised";
import { ViewLink } from "../parts/link";
import { FormField, Message } from "../parts/message";
import { Replay } from "../parts/replay";

/** The last dead letters of each sink, fetched when somebody asks for them: the gateway logs who has seen them. */
export function Letters({ status, mayControl }: { status: Status; mayControl: boolean }) {
  const [found, setFound] = useState<DeadLetters | null>(null);
  const [error, setError] = useState("");
  const [form, setForm] = useState<Form>("auto");
  const [asked, setAsked] = useState(0);
  const [replays, setReplays] = useState<Asked | null>(null);

  useEffect(() => {
    let left = false;
    request("dead-letters")
      .then((answer) => {
        if (left) return;
        setFound(answer as DeadLetters);
        setError("");
      })
      .catch((refused: unknown) => {
        if (!left) setError(refused instanceof Error ? refused.message : String(refused));
      });
    return () => {
      left = true;
    };
  }, [asked]);

  const counts = new Map(status.sinks.map((sink) => [sink.sink, sink.dead_letters]));
  const news = (found?.sinks ?? []).reduce((sum, one) => sum + Math.max(0, (counts.get(one.sink) ?? 0) - one.count), 0);
  return (
    <>
      <div className="tools">
        <button type="button" onClick={() => setAsked(asked + 1)}>
          Refresh
        </button>
        <FormField value={form} onChange={setForm} />
        <span className="muted" role="status">
          {news > 0 && `${count(news)} more since then`}
        </span>
      </div>
      {error && <p role="alert">{error}</p>}
      {found?.sinks.length === 0 && <p className="muted">No dead letters since the gateway started.</p>}
      {found && !found.keeps_letters && (
        <p>The gateway only counts them. To see them, set enabled = true in [peek] of its configuration.</p>
      )}
      {found?.sinks.map((one) => (
        <section key={one.sink} aria-label={`Dead letters of sink ${one.sink}`}>
          <h2>
            {one.sink} <span className="muted">{count(one.count)}</span>
            {mayControl && (
              <ReplayButton sink={one.sink} deployment={replaying(status.deployments, one.sink)} onAsk={setReplays} />
            )}
          </h2>
          <ol className="messages" tabIndex={0}>
            {one.letters.map((letter, at) => (
              <li key={at}>
                <Letter letter={letter} form={form} />
              </li>
            ))}
          </ol>
        </section>
      ))}
      {found && found.sinks.length > 0 && (
        <p>
          To replay those that the bundled file sink has written to a folder: <code>{found.replay}</code>
        </p>
      )}
      {replays && (
        <Replay
          {...replays}
          sources={sourcesToReplay(status.pipelines, sourcesOf(found, replays.sink))}
          onClose={() => setReplays(null)}
        />
      )}
    </>
  );
}

interface Asked {
  sink: string;
  deployment: string;
}

interface ReplayButtonProps {
  sink: string;
  deployment: Replaying | null;
  onAsk: (asked: Asked) => void;
}

/** The button of a sink whose dead letters a deployment can replay. */
function ReplayButton({ sink, deployment, onAsk }: ReplayButtonProps) {
  if (!deployment) return null;
  return (
    <>
      <button
        type="button"
        className="quiet"
        aria-label={`Replay the dead letters of ${sink}`}
        onClick={() => onAsk({ sink, deployment: deployment.deployment })}
      >
        Replay
      </button>
      {deployment.busy && <span className="muted">a replay is in progress</span>}
    </>
  );
}

/** Returns the sources that the dead letters of a sink come from. */
function sourcesOf(found: DeadLetters | null, sink: string): string[] {
  const letters = found?.sinks.find((one) => one.sink === sink)?.letters ?? [];
  return letters.flatMap((letter) => letter.stream?.split("/").slice(0, 1) ?? []);
}

function Letter({ letter, form }: { letter: DeadLetter; form: Form }) {
  const by = letter.sink ? `refused by sink ${letter.sink}` : letter.step ? `step ${letter.step}` : "";
  return (
    <>
      <p className="cause">{letter.reason}</p>
      <p className="affected">
        <ViewLink to={{ view: "timeline", pipeline: letter.pipeline }}>{letter.pipeline}</ViewLink>
        <span>micro-batch {letter.batch}</span>
        {by && <span>{by}</span>}
        <span>committed {dateAndTime(letter.committed_at)}</span>
      </p>
      <Message place={letter.stream ? `${letter.stream} ${letter.sequence ?? ""}` : "–"} message={letter} form={form} />
    </>
  );
}
