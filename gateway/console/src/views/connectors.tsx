import type { Reported, Session, Sink, SinkSession, Status } from "../model/documents";
import { bytes, count, duration, firstLine } from "../model/format";
import { useRoute } from "../model/route";
import { Controls } from "../parts/control";
import { FilterField } from "../parts/filter_field";
import { PartLink } from "../parts/link";

const SHOWN = 100;

export function Connectors({ status, mayControl }: { status: Status; mayControl: boolean }) {
  const { filter = "" } = useRoute();
  const wanted = (text: string): boolean => text.toLowerCase().includes(filter.toLowerCase());
  const sources = status.sessions.filter((one) => wanted(`${one.connector} ${one.instance}`));
  const sinks = status.sinks.filter((one) => wanted(`${one.sink} ${one.instances.join(" ")}`));
  return (
    <>
      <div className="tools">
        <FilterField value={filter} />
      </div>
      <h2>
        Sources <span className="muted">{sources.length}</span>
      </h2>
      {!sources.length && <p className="muted">No source is connected.</p>}
      <ul className="cards">
        {sources.slice(0, SHOWN).map((session) => (
          <Source key={session.session} session={session} mayControl={mayControl} />
        ))}
      </ul>
      {sources.length > SHOWN && <p className="muted">and {sources.length - SHOWN} more: use the filter</p>}
      <h2>
        Sinks <span className="muted">{sinks.length}</span>
      </h2>
      {!sinks.length && <p className="muted">No sink is known.</p>}
      <ul className="cards">
        {sinks.slice(0, SHOWN).map((sink) => (
          <SinkCard
            key={sink.sink}
            sink={sink}
            sessions={status.sink_sessions.filter((one) => one.sink === sink.sink)}
            mayControl={mayControl}
          />
        ))}
      </ul>
    </>
  );
}

function Source({ session, mayControl }: { session: Session; mayControl: boolean }) {
  const starved = session.credit_bytes <= 0 || session.credit_messages <= 0;
  return (
    <li className="card">
      <h3>
        {session.instance} <State reported={session} />
        {session.paused && <span className="tag">paused by {session.paused.by}</span>}
        {mayControl && <Controls kind="connector" name={session.instance} paused={session.paused !== null} />}
      </h3>
      <Who reported={session} />
      <dl>
        <dt>Streams</dt>
        <dd>{count(session.streams)}</dd>
        <dt>In flight</dt>
        <dd>
          {count(session.outstanding_messages)} messages, {bytes(session.outstanding_bytes)}
        </dd>
        <dt>Credit</dt>
        <dd className={starved ? "warn" : ""}>
          {starved ? "used up: waits for the gateway" : `${bytes(session.credit_bytes)} left`}
        </dd>
      </dl>
      <Errors reported={session} />
    </li>
  );
}

function SinkCard({ sink, sessions, mayControl }: { sink: Sink; sessions: SinkSession[]; mayControl: boolean }) {
  return (
    <li className="card">
      <h3>
        {sink.sink} <span className="tag">{sink.mode ?? "never attached"}</span>
        {!sink.instances.length && <span className="tag bad">no connector</span>}
        {mayControl && <Controls kind="sink" name={sink.sink} paused={sink.paused !== null} />}
      </h3>
      {sink.failure && (
        <p className="cause">
          {firstLine(sink.failure)} <span className="muted">{duration(sink.failure_age_ms ?? 0)} ago</span>
        </p>
      )}
      <dl>
        <dt>Written by</dt>
        <dd>
          {sink.writers.map((name) => (
            <PartLink key={name} part={`pipeline ${name}`} />
          ))}
          {!sink.writers.length && "nobody"}
        </dd>
        <dt>Staged</dt>
        <dd>{count(sink.staged_messages)} messages</dd>
        <dt>Pending</dt>
        <dd>{count(sink.pending_transactions)} transactions</dd>
        <dt>Failures</dt>
        <dd className={sink.failures ? "warn" : ""}>{count(sink.failures)}</dd>
      </dl>
      {sessions.map((session) => (
        <div key={session.session} className="instance">
          <h4>
            {session.instance} <State reported={session} />
          </h4>
          <Who reported={session} />
          <Errors reported={session} />
        </div>
      ))}
    </li>
  );
}

function State({ reported }: { reported: Reported }) {
  if (!reported.state) return <span className="tag">connected</span>;
  return (
    <span className={`tag ${reported.state === "running" ? "good" : "bad"}`}>
      {reported.state} for {duration(reported.state_age_ms ?? 0)}
    </span>
  );
}

function Who({ reported }: { reported: Reported }) {
  const { sdk } = reported;
  return (
    <>
      <p className="muted">
        {reported.connector} {reported.connector_version}
        {sdk && ` · ${sdk.language}, ${sdk.name} ${sdk.version}`} · {reported.peer} · connected for{" "}
        {duration(reported.age_ms)}
      </p>
      {reported.reason && <p className="cause">{firstLine(reported.reason)}</p>}
    </>
  );
}

function Errors({ reported }: { reported: Reported }) {
  const errors = reported.errors.toReversed();
  const last = errors[0];
  if (!last) return null;
  return (
    <details>
      <summary>
        {errors.length} {errors.length === 1 ? "error" : "errors"}, the last {duration(last.age_ms)} ago:{" "}
        {firstLine(last.message)}
      </summary>
      <ol>
        {errors.map((error, index) => (
          <li key={index}>
            <span className="muted">
              {duration(error.age_ms)} ago{error.stream && `, ${error.stream}`}
            </span>{" "}
            {error.message}
          </li>
        ))}
      </ol>
    </details>
  );
}
