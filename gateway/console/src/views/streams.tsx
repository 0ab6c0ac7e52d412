import { useMemo } from "react";
import type { Status, Stream } from "../model/documents";
import { bytes, count, counted, duration, rate } from "../model/format";
import { SAMPLES, type History } from "../model/history";
import { cursor, place } from "../model/position";
import { adjust, useRoute } from "../model/route";
import { Controls, Danger } from "../parts/control";
import { Age, LastError } from "../parts/age";
import { Grid, type Column } from "../parts/grid";
import { ViewLink } from "../parts/link";
import { Mark } from "../parts/mark";
import { Peek } from "../parts/peek";
import { Sparkline } from "../parts/sparkline";

const nameOf = (row: Stream): string => row.stream;
const conditionOf = (row: Stream): string => row.condition;

interface Shown {
  status: Status;
  history: History;
  mayControl: boolean;
  mayPeek: boolean;
}

export function Streams({ status, history, mayControl, mayPeek }: Shown) {
  const { filter = "", sort = "-lag", stream: selected } = useRoute();
  const columns = useMemo(() => columnsOf(history), [history]);
  const shown = status.streams.find((row) => row.stream === selected);
  return (
    <Grid
      label="Streams"
      kind="streams"
      rows={status.streams}
      columns={columns}
      name={nameOf}
      filter={filter}
      sort={sort}
      selected={selected}
      onSelect={(stream) => adjust({ stream })}
    >
      {shown && <Details row={shown} history={history} mayControl={mayControl} />}
      {shown && mayPeek && <Peek key={shown.stream} stream={shown.stream} />}
    </Grid>
  );
}

function columnsOf(history: History): Column<Stream>[] {
  const received = (row: Stream): number => history.rate(`stream ${row.stream}`, "received");
  return [
    { key: "name", title: "Stream", value: nameOf, cell: nameOf },
    { key: "state", title: "State", value: conditionOf, cell: (row) => <Mark of={conditionOf(row)} /> },
    {
      key: "trend",
      title: "Trend",
      value: (row) => row.lag_messages,
      cell: (row) => (
        <Sparkline values={history.of(`stream ${row.stream}`).map((sample) => sample.lag)} slots={SAMPLES} />
      ),
    },
    { key: "lag", title: "Lag", value: (row) => row.lag_messages, cell: (row) => count(row.lag_messages) },
    { key: "rate", title: "Received", value: received, cell: (row) => rate(received(row)) },
    {
      key: "oldest",
      title: "Oldest",
      value: (row) => row.oldest_unacknowledged_ms,
      cell: (row) => (row.lag_messages ? duration(row.oldest_unacknowledged_ms) : "–"),
    },
    {
      key: "position",
      title: "Position",
      value: (row) => row.received?.sequence ?? -1,
      cell: (row) => place(row.received),
    },
    {
      key: "last_error",
      title: "Last error",
      value: (row) => (row.last_error === null ? -Infinity : -(row.last_error_age_ms ?? 0)),
      cell: (row) => <LastError row={row} />,
    },
    {
      key: "instance",
      title: "Connector",
      value: (row) => row.instance ?? "",
      cell: (row) => row.instance ?? (row.last_instance ? `(${row.last_instance})` : "–"),
    },
  ];
}

function Details({ row, history, mayControl }: { row: Stream; history: History; mayControl: boolean }) {
  const part = `stream ${row.stream}`;
  return (
    <section className="details" aria-label={`Stream ${row.stream}`}>
      <h2>
        {row.stream}
        {mayControl && <Controls kind="stream" name={row.stream} paused={row.paused !== null} />}
        <button type="button" className="quiet" onClick={() => adjust({ stream: "" })}>
          Close
        </button>
      </h2>
      {row.detail && <p className="cause">{row.detail}</p>}
      <dl>
        <dt>State</dt>
        <dd>
          {row.state} for <Age ms={row.state_age_ms} row={row} />
          {row.paused && `, paused by ${row.paused.by}`}
        </dd>
        <dt>Received</dt>
        <dd>
          {place(row.received)}, {rate(history.rate(part, "received"))}, cursor <code>{cursor(row.received)}</code>
        </dd>
        <dt>Acknowledged</dt>
        <dd>
          {place(row.acknowledged)}, {rate(history.rate(part, "done"))}, cursor <code>{cursor(row.acknowledged)}</code>
        </dd>
        <dt>Lag</dt>
        <dd>
          {counted(row.lag_messages, "message")}, {bytes(row.lag_bytes)}
          {row.lag_messages > 0 && `, the oldest for ${duration(row.oldest_unacknowledged_ms)}`}
        </dd>
        <dt>Connector</dt>
        <dd>{row.instance ?? (row.last_instance ? `none; ${row.last_instance} was the last one` : "none")}</dd>
        <dt>Last error</dt>
        <dd>{row.last_error ? <LastError row={row} /> : "none since the gateway started"}</dd>
        <dt>Waits for</dt>
        <dd>{row.holders.map((holder) => `${holder.pipeline} (${holder.state})`).join(", ") || "nothing"}</dd>
      </dl>
      <p>
        <ViewLink to={{ view: "overview", part, range: "1 h" }}>Its last hour</ViewLink>
      </p>
      {mayControl && <Danger kind="stream" name={row.stream} />}
    </section>
  );
}
