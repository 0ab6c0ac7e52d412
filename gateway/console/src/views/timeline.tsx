import { memo, useEffect, useState } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";
import { request } from "../client/api";
import { STAGES, type Batch, type Located, type Status, type Timeline as Document } from "../model/documents";
import { count, duration } from "../model/format";
import { bars, lastStage, scale, span } from "../model/lanes";
import { adjust, useRoute } from "../model/route";
import { Controls } from "../parts/control";

const LIMIT = 500;
const EVERY_MS = 1000;
const STEP = 30;

export function Timeline({ status, mayControl }: { status: Status; mayControl: boolean }) {
  const route = useRoute();
  const known = status.pipelines.map((one) => one.pipeline);
  const name = route["pipeline"] ?? known[0] ?? "";
  const pipeline = status.pipelines.find((one) => one.pipeline === name);
  return (
    <>
      <div className="tools">
        <label>
          Pipeline{" "}
          <select value={name} onChange={(event) => adjust({ pipeline: event.target.value })}>
            {(known.includes(name) ? known : [name, ...known]).map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        {pipeline && (
          <span className="muted">
            {pipeline.paused ? "paused" : pipeline.state}
            {pipeline.batch_ms !== null && `, micro-batch in flight for ${duration(pipeline.batch_ms)}`}
          </span>
        )}
        {pipeline && mayControl && <Controls kind="pipeline" name={name} paused={pipeline.paused !== null} />}
      </div>
      {name ? <Batches key={name} pipeline={name} /> : <p className="muted">No pipeline is known.</p>}
      <Why />
    </>
  );
}

// It asks for its batches itself: that the status has changed is no reason to draw them again.
const Batches = memo(function Batches({ pipeline }: { pipeline: string }) {
  const [found, setFound] = useState<Document | null>(null);
  const [error, setError] = useState("");
  const [shown, setShown] = useState(STEP);
  const [chosen, setChosen] = useState<string | null>(null);
  useEffect(() => {
    let timer: number | undefined;
    let ended = false;
    async function ask(): Promise<void> {
      try {
        const answer = await request(`pipelines/${encodeURIComponent(pipeline)}/batches?limit=${LIMIT}&streams=0`);
        if (!ended) {
          setFound(answer as Document);
          setError("");
        }
      } catch (refused) {
        if (!ended) setError(refused instanceof Error ? refused.message : String(refused));
      }
      if (!ended) timer = window.setTimeout(() => void ask(), EVERY_MS);
    }
    void ask();
    return () => {
      ended = true;
      window.clearTimeout(timer);
    };
  }, [pipeline]);
  if (!found) return <p className="muted">{error || "Reading the timeline…"}</p>;
  const rows = found.batches.slice(0, shown);
  const top = scale(rows);
  return (
    <>
      {error && <p className="error">{error}</p>}
      <div className="scroll" tabIndex={0} role="region" aria-label="Durations">
        <table className="summary">
          <caption>Since planned, over the last {count(found.batches.length)} micro-batches</caption>
          <thead>
            <tr>
              <th scope="col">Stage</th>
              <th scope="col">min</th>
              <th scope="col">avg</th>
              <th scope="col">max</th>
            </tr>
          </thead>
          <tbody>
            {STAGES.filter((stage) => found.summary[stage]).map((stage) => (
              <tr key={stage}>
                <th scope="row">
                  <span className={`swatch ${stage}`} aria-hidden="true" />
                  {label(stage)}
                </th>
                <td>{duration(found.summary[stage]?.min_ms ?? 0)}</td>
                <td>{duration(found.summary[stage]?.avg_ms ?? 0)}</td>
                <td>{duration(found.summary[stage]?.max_ms ?? 0)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {!found.batches.length && <p className="muted">No micro-batch yet.</p>}
      <ol className="batches" aria-label="Micro-batches, the last one first">
        {rows.map((batch, index) => {
          const key = keyOf(batch);
          return (
            <li key={key}>
              <Lane batch={batch} top={top} chosen={chosen === key} onChoose={setChosen} />
              {chosen === key && <Details pipeline={pipeline} batch={batch} index={index} />}
            </li>
          );
        })}
      </ol>
      {found.batches.length > shown && <Button onPress={() => setShown(shown + STEP)}>Show more</Button>}
    </>
  );
});

interface LaneProps {
  batch: Batch;
  top: number;
  chosen: boolean;
  onChoose: (key: string | null) => void;
}

/** A micro-batch. Most of them have ended, and look the same in each answer. */
const Lane = memo(
  function Lane({ batch, top, chosen, onChoose }: LaneProps) {
    return (
      <Button className="lane" aria-expanded={chosen} onPress={() => onChoose(chosen ? null : keyOf(batch))}>
        <span className="batch">{batch.batch === null ? "–" : count(batch.batch)}</span>
        <Lanes batch={batch} top={top} />
        <span className="end">
          {label(lastStage(batch) ?? "planned")}, {duration(span(batch))}
        </span>
      </Button>
    );
  },
  (before, after) =>
    before.top === after.top &&
    before.chosen === after.chosen &&
    before.batch.batch === after.batch.batch &&
    STAGES.every((stage) => before.batch.stages[stage] === after.batch.stages[stage]),
);

function keyOf(batch: Batch): string {
  return Object.values(batch.stages)[0] ?? String(batch.batch);
}

function label(stage: string): string {
  return stage.replace("_", " ");
}

function Lanes({ batch, top }: { batch: Batch; top: number }) {
  return (
    <svg className="lanes" viewBox="0 0 1000 32" preserveAspectRatio="none" aria-hidden="true">
      {bars(batch).map(({ stage, from, to }) => (
        <rect
          key={stage}
          className={stage}
          x={Math.min(996, (from / top) * 1000)}
          width={Math.max(4, (Math.min(to, top) / top) * 1000 - (from / top) * 1000)}
          y={STAGES.indexOf(stage) * 4}
          height={4}
        />
      ))}
    </svg>
  );
}

/** The list has no ranges, which would be most of it: those of the chosen micro-batch are requested. */
function Details({ pipeline, batch, index }: { pipeline: string; batch: Batch; index: number }) {
  const [found, setFound] = useState<Batch | null>(null);
  const [error, setError] = useState("");
  const key = keyOf(batch);
  // One that has no number yet is among the last ones.
  const which = batch.batch === null ? `limit=${index + 1}` : `batch=${batch.batch}`;
  useEffect(() => {
    let ended = false;
    request(`pipelines/${encodeURIComponent(pipeline)}/batches?${which}`).then(
      (answer) => {
        if (!ended) setFound((answer as Document).batches.find((one) => keyOf(one) === key) ?? null);
      },
      (refused: unknown) => {
        if (!ended) setError(refused instanceof Error ? refused.message : String(refused));
      },
    );
    return () => {
      ended = true;
    };
  }, [pipeline, which, key]);
  return (
    <div className="details">
      <p>
        {bars(batch)
          .map(({ stage, to }) => `${label(stage)} after ${duration(to)}`)
          .join(" · ")}
        {batch.rebuilt && " · rebuilt after a restart"}
        {batch.redelivered && " · redelivered"}
      </p>
      {error && <p className="error">{error}</p>}
      <table className="ranges">
        <thead>
          <tr>
            <th scope="col">Stream</th>
            <th scope="col">after</th>
            <th scope="col">up to</th>
            <th scope="col">messages</th>
          </tr>
        </thead>
        <tbody>
          {found?.streams.map((one) => (
            <tr key={one.stream}>
              <th scope="row">{one.stream}</th>
              <td>{one.after === null ? "the beginning" : count(one.after)}</td>
              <td>{count(one.end)}</td>
              <td>{one.messages === null ? "–" : count(one.messages)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {found && found.streams_in_all > found.streams.length && (
        <p className="muted">and {count(found.streams_in_all - found.streams.length)} more streams</p>
      )}
    </div>
  );
}

const Why = memo(function Why() {
  const { message_stream = "", sequence = "" } = useRoute();
  const [answer, setAnswer] = useState<Located | null>(null);
  const [error, setError] = useState("");

  async function ask(): Promise<void> {
    try {
      const query = new URLSearchParams({ stream: message_stream, sequence });
      setAnswer((await request(`unacknowledged?${query.toString()}`)) as Located);
      setError("");
    } catch (refused) {
      setAnswer(null);
      setError(refused instanceof Error ? refused.message : String(refused));
    }
  }

  return (
    <section className="why" aria-labelledby="why">
      <h2 id="why">Why is this message not acknowledged yet?</h2>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          void ask();
        }}
      >
        <TextField value={message_stream} onChange={(text) => adjust({ message_stream: text })} isRequired>
          <Label>Stream</Label>
          <Input />
        </TextField>
        <TextField value={sequence} onChange={(text) => adjust({ sequence: text })} isRequired inputMode="numeric">
          <Label>Sequence</Label>
          <Input pattern="[0-9]+" />
        </TextField>
        <Button type="submit" className="primary">
          Ask
        </Button>
      </Form>
      <div role="status">
        {error && <p className="error">{error}</p>}
        {answer && (
          <>
            <p className="cause">
              <strong>{answer.state}</strong> {answer.reason}
            </p>
            {answer.problem && (
              <p className="remedy">
                {answer.problem.cause}. <strong>Remedy</strong> {answer.problem.remedy}
              </p>
            )}
            <ul>
              {answer.pipelines.map((one) => (
                <li key={one.pipeline}>
                  {one.pipeline}: {one.state}
                  {one.batch !== null && `, micro-batch ${one.batch}`}
                  {one.stage && `, ${label(one.stage)}`}. {one.reason}
                </li>
              ))}
            </ul>
          </>
        )}
      </div>
    </section>
  );
});
