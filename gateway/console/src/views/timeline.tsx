import { memo, useEffect, useState } from "react";
import { request } from "../client/api";
import {
  STAGES,
  type Batch,
  type Located,
  type Problem,
  type Status,
  type Timeline as Document,
} from "../model/documents";
import { clockTime, count, counted, duration } from "../model/format";
import { bars, lastStage, scale, span } from "../model/lanes";
import { durations } from "../model/percentiles";
import { adjust, useRoute } from "../model/route";
import { MESSAGE_STATES } from "../model/words";
import { LastError } from "../parts/age";
import { Controls, Danger } from "../parts/control";
import { PartLink } from "../parts/link";
import { Meters } from "../parts/meters";
import { usePolled } from "../parts/polled";

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
      {pipeline?.last_error && (
        <p className="cause">
          Last error: <LastError row={pipeline} />
        </p>
      )}
      {pipeline && <Meters key={`meters ${name}`} series={pipeline.series} />}
      {name ? (
        // Whole seconds: what is drawn changes no more often.
        <Batches key={name} pipeline={name} runningMs={seconds(pipeline?.batch_ms ?? null)} />
      ) : (
        <p className="muted">No pipeline is known.</p>
      )}
      {pipeline && mayControl && <Danger kind="pipeline" name={name} />}
      <Why />
    </>
  );
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms < 1000 ? 0 : Math.floor(ms / 1000) * 1000;
}

interface BatchesProps {
  pipeline: string;
  /** How long ago the micro-batch in flight was planned; null if there is none. */
  runningMs: number | null;
}

// It asks for its batches itself: that the status has changed is no reason to draw them again.
const Batches = memo(function Batches({ pipeline, runningMs }: BatchesProps) {
  const path = `pipelines/${encodeURIComponent(pipeline)}/batches?limit=${LIMIT}&streams=0`;
  const { answer: found, error } = usePolled<Document>(path, EVERY_MS);
  const [shown, setShown] = useState(STEP);
  const [chosen, setChosen] = useState<string | null>(null);
  if (!found) return <p className="muted">{error || "Reading the timeline…"}</p>;
  const rows = found.batches.slice(0, shown);
  const ended = rows.filter((batch) => batch.stages.committed);
  const top = scale(ended, runningMs);
  return (
    <>
      {error && <p className="error">{error}</p>}
      <div className="scroll" tabIndex={0} role="region" aria-label="Durations">
        <table className="summary">
          <caption>Since planned, over the last {counted(found.batches.length, "micro-batch")}</caption>
          <thead>
            <tr>
              <th scope="col">Stage</th>
              <th scope="col">min</th>
              <th scope="col">p50</th>
              <th scope="col">p99</th>
              <th scope="col">max</th>
            </tr>
          </thead>
          <tbody>
            {durations(found.batches).map(({ stage, ...each }) => (
              <tr key={stage}>
                <th scope="row">
                  <span className={`swatch ${stage}`} aria-hidden="true" />
                  {label(stage)}
                </th>
                <td>{duration(each.min)}</td>
                <td>{duration(each.p50)}</td>
                <td>{duration(each.p99)}</td>
                <td>{duration(each.max)}</td>
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
              <Lane
                batch={batch}
                top={top}
                runningMs={index === 0 && !batch.stages.committed ? runningMs : null}
                chosen={chosen === key}
                onChoose={setChosen}
              />
              {chosen === key && <Details pipeline={pipeline} batch={batch} index={index} />}
            </li>
          );
        })}
      </ol>
      {found.batches.length > shown && (
        <button type="button" onClick={() => setShown(shown + STEP)}>
          Show more
        </button>
      )}
    </>
  );
});

interface LaneProps {
  batch: Batch;
  top: number;
  /** For how long it runs; null if it has ended. */
  runningMs: number | null;
  chosen: boolean;
  onChoose: (key: string | null) => void;
}

/** A micro-batch. Most of them have ended, and look the same in each answer. */
const Lane = memo(
  function Lane({ batch, top, runningMs, chosen, onChoose }: LaneProps) {
    return (
      <button
        type="button"
        className="lane"
        aria-expanded={chosen}
        onClick={() => onChoose(chosen ? null : keyOf(batch))}
      >
        <span className="batch">{batch.batch === null ? "–" : count(batch.batch)}</span>
        <time dateTime={startOf(batch)}>{clockTime(startOf(batch))}</time>
        <Lanes batch={batch} top={top} runningMs={runningMs} />
        <span className="end">
          {runningMs === null
            ? `${label(lastStage(batch) ?? "planned")}, ${duration(span(batch))}`
            : `${label(lastStage(batch) ?? "planned")}, runs for ${duration(runningMs)}`}
        </span>
      </button>
    );
  },
  (before, after) =>
    before.top === after.top &&
    before.chosen === after.chosen &&
    before.runningMs === after.runningMs &&
    before.batch.batch === after.batch.batch &&
    STAGES.every((stage) => before.batch.stages[stage] === after.batch.stages[stage]),
);

function keyOf(batch: Batch): string {
  return Object.values(batch.stages)[0] ?? String(batch.batch);
}

/** When it reached its first stage. */
function startOf(batch: Batch): string {
  return Object.values(batch.stages)[0] ?? "";
}

function label(stage: string): string {
  return stage.replace("_", " ");
}

function Lanes({ batch, top, runningMs }: { batch: Batch; top: number; runningMs: number | null }) {
  const running = runningMs === null ? 0 : Math.max(8, (Math.min(runningMs, top) / top) * 1000);
  return (
    <svg className="lanes" viewBox="0 0 1000 32" preserveAspectRatio="none" aria-hidden="true">
      {running > 0 && <rect className="running" x={0} width={running} y={0} height={32} />}
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

/** The list has no ranges, which would be most of it: the page requests the ranges of the chosen micro-batch. */
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
          .map(({ stage, to }) => `${label(stage)} at ${clockTime(batch.stages[stage] ?? "")}, after ${duration(to)}`)
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

/** The cause why a message waits, and the remedy, from the problems that health lists. */
function Because({ problem }: { problem: Problem }) {
  return (
    <>
      <p className="cause">
        <PartLink part={problem.root} />: {problem.cause}
      </p>
      <p className="remedy">
        <strong>Remedy</strong> {problem.remedy}
      </p>
    </>
  );
}

const Why = memo(function Why() {
  const { message_stream = "", sequence = "" } = useRoute();
  const [answer, setAnswer] = useState<Located | null>(null);
  const [error, setError] = useState("");

  async function ask(): Promise<void> {
    try {
      const query = new URLSearchParams({ stream: message_stream, ...(sequence && { sequence }) });
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
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void ask();
        }}
      >
        <label className="field">
          Stream
          <input value={message_stream} onChange={(event) => adjust({ message_stream: event.target.value })} required />
        </label>
        <label className="field">
          Sequence
          <input
            value={sequence}
            onChange={(event) => adjust({ sequence: event.target.value })}
            placeholder="the oldest"
            inputMode="numeric"
            pattern="[0-9]+"
          />
        </label>
        <button type="submit" className="primary">
          Ask
        </button>
      </form>
      <div role="status">
        {error && <p className="error">{error}</p>}
        {answer && (
          <>
            <p className="cause">
              <strong>
                {answer.stream} {String(answer.sequence)}
              </strong>{" "}
              {MESSAGE_STATES[answer.state] ?? answer.state}
            </p>
            {answer.reason && <p>{answer.reason}</p>}
            <ul>
              {answer.pipelines.map((one) => (
                <li key={one.pipeline}>
                  pipeline {one.pipeline}: {MESSAGE_STATES[one.state] ?? one.state}
                  {one.batch !== null && `, micro-batch ${one.batch}`}
                  {one.stage && `, ${label(one.stage)}`}
                  {one.reason && <div>{one.reason}</div>}
                  {one.problem && <Because problem={one.problem} />}
                </li>
              ))}
            </ul>
            {answer.problem && <Because problem={answer.problem} />}
          </>
        )}
      </div>
    </section>
  );
});
