import { useMemo, type ReactNode } from "react";
import { causes, isFault, splitPart } from "../model/causes";
import type { HappenedEvent, HistoryField, Me, PartHistory, Status } from "../model/documents";
import { bytes, count, counted, duration, firstLine, rate } from "../model/format";
import { lastOf, plotsOf } from "../model/plots";
import { adjust, useRoute } from "../model/route";
import { Events } from "../parts/events";
import { PartLink, ViewLink } from "../parts/link";
import { useNow } from "../parts/now";
import { Plot } from "../parts/plot";
import { usePolled, type Polled } from "../parts/polled";

const EVERY_MS = 5000;
const EVENTS = 200;
const RANGES: Record<string, number> = { "5 min": 300, "15 min": 900, "1 h": 3600 };
const GATEWAY = "gateway";

/** Is all well, how much flows, how late is it, and what happened last. The history is asked for before the status is there. */
export function Overview({ status, links }: { status: Status | null; links: Me["links"] }) {
  const { range = "15 min", part = GATEWAY } = useRoute();
  const seconds = RANGES[range] ?? 900;
  const now = useNow();
  const log = usePolled<{ events: HappenedEvent[] }>(`event-log?limit=${EVENTS}`, EVERY_MS);
  const shown = usePolled<PartHistory>(pathOf(part, seconds), EVERY_MS);
  const whole = usePolled<PartHistory>(part === GATEWAY ? null : pathOf(GATEWAY, 60), EVERY_MS);
  const events = useMemo(() => (log.answer?.events ?? []).toReversed(), [log.answer]);
  return (
    <>
      {status ? <Verdict status={status} now={now} /> : <p className="muted">Connecting to the gateway…</p>}
      {status && <Tiles status={status} history={part === GATEWAY ? shown.answer : whole.answer} />}
      <div className="tools">
        <Parts status={status} part={part} />
        <div className="ranges" role="group" aria-label="Time range">
          {Object.keys(RANGES).map((one) => (
            <button key={one} type="button" aria-pressed={one === range} onClick={() => adjust({ range: one })}>
              {one}
            </button>
          ))}
        </div>
        {links?.prometheus && <Elsewhere to={links.prometheus}>Prometheus</Elsewhere>}
        {links?.spark && <Elsewhere to={links.spark}>Spark</Elsewhere>}
      </div>
      <Plots part={part} seconds={seconds} history={shown} events={events} />
      <h2>What happened</h2>
      {log.error && <p className="error">{log.error}</p>}
      <Events events={events} now={now} isKnown={log.answer !== null} />
    </>
  );
}

function Elsewhere({ to, children }: { to: string; children: ReactNode }) {
  return (
    <a href={to} target="_blank" rel="noreferrer">
      {children} ↗
    </a>
  );
}

function Verdict({ status, now }: { status: Status; now: number }) {
  const troubles = causes(status.health.problems).filter((cause) => isFault(cause.problem));
  const first = troubles[0];
  return (
    <section className={first ? "verdict-box bad" : "verdict-box good"} aria-label="Verdict">
      <p className={first ? "verdict bad" : "verdict good"}>
        <span aria-hidden="true">{first ? "✕" : "✓"}</span>
        {first ? `${troubles.length} in trouble` : "All is well"}
        <span className="muted">
          {counted(status.streams.length, "stream")} ·{" "}
          {counted(status.sessions.length + status.sink_sessions.length, "connector")} ·{" "}
          {counted(status.pipelines.length, "pipeline")} · {counted(status.sinks.length, "sink")}
        </span>
      </p>
      {first && (
        <p>
          <PartLink part={first.root} /> for {duration(now - Date.parse(first.problem.since))}:{" "}
          {firstLine(first.problem.cause)}
          {" · "}
          <ViewLink to={{ view: "health" }}>
            {troubles.length > 1 ? `Remedy, and ${troubles.length - 1} more` : "Remedy"}
          </ViewLink>
        </p>
      )}
    </section>
  );
}

function Tiles({ status, history }: { status: Status; history: PartHistory | null }) {
  const { gateway, streams, pipelines } = status;
  const lag = streams.reduce((sum, one) => sum + one.lag_messages, 0);
  const read = streams.filter((one) => one.readers > 0 && one.lag_messages > 0);
  const latest = read.reduce((most, one) => Math.max(most, one.oldest_unacknowledged_ms), 0);
  const running = pipelines.reduce((most, one) => Math.max(most, one.batch_ms ?? 0), 0);
  const perSecond = (field: HistoryField): string => {
    const value = lastOf(history, field);
    return value === null ? "–" : rate(value);
  };
  const tiles: [name: string, value: string, more: string][] = [
    ["Received", perSecond("received_messages_per_s"), `${count(gateway.received_messages)} in all`],
    ["Acknowledged", perSecond("acknowledged_messages_per_s"), `${count(gateway.acknowledged_messages)} in all`],
    ["Lag", count(lag), "messages not acknowledged"],
    ["Late by", duration(latest), "the oldest message that a query reads"],
    ["Longest micro-batch", running ? duration(running) : "none", "in flight now"],
    [
      "Buffered",
      bytes(gateway.buffered_bytes),
      `${Math.round((gateway.buffered_bytes / Math.max(1, gateway.buffer_limit_bytes)) * 100)} % of the buffer`,
    ],
  ];
  return (
    <dl className="tiles">
      {tiles.map(([name, value, more]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className="value">{value}</dd>
          <dd className="muted">{more}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Which part the plots show: the gateway, a pipeline or a sink; streams, which may be thousands, lead here from their details. */
function Parts({ status, part }: { status: Status | null; part: string }) {
  const known = [
    GATEWAY,
    ...(status?.pipelines ?? []).map((one) => `pipeline ${one.pipeline}`),
    ...(status?.sinks ?? []).map((one) => `sink ${one.sink}`),
  ];
  return (
    <label>
      History of{" "}
      <select value={part} onChange={(event) => adjust({ part: event.target.value })}>
        {(known.includes(part) ? known : [...known, part]).map((one) => (
          <option key={one} value={one}>
            {one === GATEWAY ? "the gateway" : one}
          </option>
        ))}
      </select>
    </label>
  );
}

function pathOf(part: string, seconds: number): string {
  const [kind, name] = splitPart(part);
  return `history?${new URLSearchParams({ kind, name, seconds: String(seconds) }).toString()}`;
}

interface PlotsProps {
  part: string;
  seconds: number;
  history: Polled<PartHistory>;
  events: HappenedEvent[];
}

function Plots({ part, seconds, history: { answer, error }, events }: PlotsProps) {
  const times = useMemo(() => (answer?.times_ms ?? []).map((at) => at / 1000), [answer]);
  const plots = useMemo(() => (answer ? plotsOf(answer) : []), [answer]);
  const marks = useMemo(
    () => events.filter((one) => one.kind === "fault-began").map((one) => Date.parse(one.at) / 1000),
    [events],
  );
  if (!answer) return <p className="muted">{error || "Reading the history…"}</p>;
  const to = times.at(-1) ?? 0;
  return (
    <div className="plots">
      {plots.map((plot) => (
        <Plot key={`${part} ${plot.title}`} {...plot} times={times} marks={marks} from={to - seconds} to={to} />
      ))}
    </div>
  );
}
