import { useMemo, useState } from "react";
import type { Heard, Reported, Session, Sink, SinkSession, Status } from "../model/documents";
import { credit } from "../model/credit";
import { bytes, count, counted, duration } from "../model/format";
import { adjust, useRoute } from "../model/route";
import { supervisedBy, unconnected, type Supervised } from "../model/supervised";
import { Age, AgedError, LastError } from "../parts/age";
import { Controls } from "../parts/control";
import { Grid, type Column } from "../parts/grid";
import { PartLink } from "../parts/link";
import { Mark } from "../parts/mark";
import { Restart } from "../parts/restart";

/** A session of a source or of a sink, a sink that no connector serves, or a connector of a deployment without a session. */
interface Row {
  name: string;
  serves: string;
  state: string;
  sinceMs: number;
  reported: Reported | null;
  session: Session | null;
  sink: Sink | null;
  supervised: Supervised | null;
}

const nameOf = (row: Row): string => row.name;

export function Connectors({ status, mayControl }: { status: Status; mayControl: boolean }) {
  const { filter = "", sort = "name", connector: selected } = useRoute();
  const rows = useMemo(() => rowsOf(status), [status]);
  const shown = rows.find((row) => row.name === selected);
  const [restarts, setRestarts] = useState<Supervised | null>(null);
  return (
    <>
      <Grid
        label="Connectors"
        kind="connectors"
        rows={rows}
        columns={COLUMNS}
        name={nameOf}
        filter={filter}
        sort={sort}
        selected={selected}
        onSelect={(connector) => adjust({ connector })}
      >
        {shown && <Details row={shown} mayControl={mayControl} onRestart={setRestarts} />}
      </Grid>
      {restarts && <Restart connector={restarts} onClose={() => setRestarts(null)} />}
    </>
  );
}

function rowsOf(status: Status): Row[] {
  const sinks = new Map(status.sinks.map((one) => [one.sink, one]));
  const of = (reported: Reported, serves: string): Omit<Row, "session" | "sink"> => ({
    name: reported.instance,
    serves,
    state: reported.condition,
    sinceMs: reported.state_age_ms ?? reported.age_ms,
    reported,
    supervised: supervisedBy(status.deployments, reported.instance),
  });
  const sources = status.sessions.map((session) => ({
    ...of(session, counted(session.streams, "stream")),
    session,
    sink: null,
  }));
  const served = status.sink_sessions.map((session: SinkSession) => {
    const sink = sinks.get(session.sink) ?? null;
    return {
      ...of(session, `sink ${session.sink}`),
      name: `${session.sink} · ${session.instance}`,
      session: null,
      sink,
    };
  });
  const unserved = status.sinks
    .filter((sink) => !sink.instances.length)
    .map((sink) => ({
      name: `${sink.sink} · –`,
      serves: `sink ${sink.sink}`,
      state: "no connector",
      sinceMs: sink.absent_ms ?? 0,
      reported: null,
      session: null,
      sink,
      supervised: null,
    }));
  const instances = new Set([...status.sessions, ...status.sink_sessions].map((session) => session.instance));
  const away = unconnected(status.deployments, instances).map((supervised) => ({
    name: `${supervised.instance} · ${supervised.deployment}`,
    serves: "–",
    state: supervised.failure ? "fails" : "no session",
    sinceMs: 0,
    reported: null,
    session: null,
    sink: null,
    supervised,
  }));
  return [...sources, ...served, ...unserved, ...away];
}

const COLUMNS: Column<Row>[] = [
  { key: "name", title: "Connector", value: nameOf, cell: nameOf },
  { key: "state", title: "State", value: (row) => row.state, cell: (row) => <Mark of={row.state} /> },
  {
    key: "since",
    title: "Reports",
    value: (row) => row.sinceMs,
    cell: (row) => <Since row={row} />,
  },
  { key: "serves", title: "Serves", value: (row) => row.serves, cell: (row) => row.serves },
  {
    key: "credit",
    title: "Credit left",
    value: (row) => (row.session ? credit(row.session) : 2),
    cell: (row) => (row.session ? `${Math.floor(credit(row.session) * 100)} %` : "–"),
  },
  {
    key: "flight",
    title: "In flight",
    value: (row) => row.session?.outstanding_messages ?? row.sink?.pending_transactions ?? 0,
    cell: (row) => (row.session ? count(row.session.outstanding_messages) : "–"),
  },
  {
    key: "errors",
    title: "Errors",
    value: (row) => row.reported?.errors.length ?? 0,
    cell: (row) => count(row.reported?.errors.length ?? 0),
  },
  {
    key: "sdk",
    title: "Language",
    value: (row) => row.reported?.sdk?.language ?? "",
    cell: (row) => (row.reported?.sdk ? `${row.reported.sdk.language} ${row.reported.sdk.version}` : "–"),
  },
  {
    key: "reason",
    title: "Last error",
    value: (row) => lastError(row)?.message ?? "",
    cell: (row) => <Reason row={row} />,
  },
];

/** Whether it is known since when the row is in its state. */
function isSince(row: Row): boolean {
  return row.reported !== null || row.sink !== null;
}

/** The state that the connector reports, and for how long; for how long there is none, of a sink that none serves. */
function Since({ row }: { row: Row }) {
  if (!isSince(row)) return <>–</>;
  return (
    <>
      {row.reported && `${row.reported.state ?? "connected"} `}for <Age ms={row.sinceMs} row={heardOf(row)} />
    </>
  );
}

function heardOf(row: Row): Heard {
  return row.reported ?? row.sink ?? {};
}

/** What went wrong last: what the connector has reported, or what its sink or its process has met; null if nothing has. */
function lastError({
  reported,
  sink,
  supervised,
}: Row): { message: string; ms: number; row: Heard; isOver: boolean } | null {
  const [last] = [reported, sink]
    .flatMap((row) => (row?.last_error ? [{ ...row.last_error, row, ms: row.last_error_age_ms ?? 0 }] : []))
    .sort((one, other) => one.ms - other.ms);
  if (last) return { message: last.message, ms: last.ms, row: last.row, isOver: last.is_over };
  if (reported !== null || !supervised?.failure) return null;
  return { message: supervised.failure, ms: supervised.failingMs, row: supervised, isOver: false };
}

function Reason({ row }: { row: Row }) {
  const error = lastError(row);
  return error && <AgedError {...error} />;
}

interface DetailsProps {
  row: Row;
  mayControl: boolean;
  onRestart: (connector: Supervised) => void;
}

function Details({ row, mayControl, onRestart }: DetailsProps) {
  const { reported, session, sink, supervised } = row;
  return (
    <section className="details" aria-label={`Connector ${row.name}`}>
      <h2>
        {row.name}
        {mayControl && session && (
          <Controls kind="connector" name={session.instance} paused={session.paused !== null} />
        )}
        {mayControl && sink && <Controls kind="sink" name={sink.sink} paused={sink.paused !== null} />}
        {mayControl && supervised && (
          <button
            type="button"
            className="quiet"
            aria-label={`Restart connector ${supervised.name} of ${supervised.deployment}`}
            onClick={() => onRestart(supervised)}
          >
            Restart
          </button>
        )}
        <button type="button" className="quiet" onClick={() => adjust({ connector: "" })}>
          Close
        </button>
      </h2>
      <p className="cause">
        <Reason row={row} />
      </p>
      {reported?.last_error && sink?.last_error && (
        <p className="cause">
          <LastError row={sink} />
        </p>
      )}
      <dl>
        <dt>State</dt>
        <dd>{row.state}</dd>
        <dt>{row.reported ? "Reports" : "Absent"}</dt>
        <dd>
          <Since row={row} />
        </dd>
        {supervised && (
          <>
            <dt>Deployment</dt>
            <dd>
              {supervised.deployment}, as {supervised.name}
              {supervised.restarting && ", a restart is in progress"}
            </dd>
          </>
        )}
        {reported && (
          <>
            <dt>Connector</dt>
            <dd>
              {reported.connector} {reported.connector_version}, at {reported.peer}, connected for{" "}
              <Age ms={reported.age_ms} row={reported} />
              {reported.sdk && ` · ${reported.sdk.language}, ${reported.sdk.name} ${reported.sdk.version}`}
            </dd>
          </>
        )}
        {session && <OfSource session={session} />}
        {sink && <OfSink sink={sink} />}
      </dl>
      {reported && <Errors reported={reported} />}
    </section>
  );
}

function OfSource({ session }: { session: Session }) {
  return (
    <>
      <dt>Streams</dt>
      <dd>{count(session.streams)}</dd>
      <dt>In flight</dt>
      <dd>
        {counted(session.outstanding_messages, "message")}, {bytes(session.outstanding_bytes)}
      </dd>
      <dt>Credit</dt>
      <dd className={session.condition === "no credit" ? "warn" : ""}>
        {session.condition === "no credit"
          ? "used up: it waits for the pipelines"
          : `${bytes(session.credit_bytes)} left`}
      </dd>
    </>
  );
}

function OfSink({ sink }: { sink: Sink }) {
  return (
    <>
      <dt>Mode</dt>
      <dd>{sink.mode ?? "not known: no connector has served it yet"}</dd>
      <dt>Written by</dt>
      <dd>
        {sink.writers.map((name) => (
          <PartLink key={name} part={`pipeline ${name}`} />
        ))}
        {!sink.writers.length && "nobody"}
      </dd>
      <dt>Staged</dt>
      <dd>
        {counted(sink.staged_messages, "message")}, {counted(sink.pending_transactions, "transaction")} pending,{" "}
        {count(sink.failures)} failed
      </dd>
      <dt>Waits for</dt>
      <dd className={sink.outstanding ? "warn" : ""}>
        {sink.outstanding ? `${sink.outstanding}, for ${duration(sink.outstanding_ms ?? 0)}` : "nothing"}
      </dd>
    </>
  );
}

function Errors({ reported }: { reported: Reported }) {
  const errors = reported.errors.toReversed();
  if (!errors.length) return <p className="muted">It has reported no errors in this session.</p>;
  return (
    <>
      <h3>Errors, the last one first</h3>
      <ol className="error-list" tabIndex={0} aria-label="Errors, the last one first">
        {errors.map((error, index) => (
          <li key={index}>
            <span className="age">
              <Age ms={error.age_ms} row={reported} /> ago
            </span>
            <span>
              {error.stream && <code>{error.stream}</code>} {error.message}
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}
