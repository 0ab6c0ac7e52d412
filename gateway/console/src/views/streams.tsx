import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";
import { Button } from "react-aria-components";
import type { Position, Status, Stream } from "../model/documents";
import { bytes, count, duration, rate } from "../model/format";
import { SAMPLES, type History } from "../model/history";
import { adjust, useRoute } from "../model/route";
import { arranged, type SortValue } from "../model/table";
import { Controls } from "../parts/control";
import { FilterField } from "../parts/filter_field";
import { Sparkline } from "../parts/sparkline";

const ROW_PX = 34;
const COLUMNS = [
  ["name", "Stream"],
  ["state", "State"],
  ["lag", "Lag"],
  ["rate", "Received"],
  ["oldest", "Oldest"],
  ["position", "Position"],
  ["instance", "Connector"],
] as const;

export function Streams({ status, history, mayControl }: { status: Status; history: History; mayControl: boolean }) {
  const { filter = "", sort = "-lag", stream: selected } = useRoute();
  const rows = useMemo(() => {
    const columns: Record<string, (row: Stream) => SortValue> = {
      name: (row) => row.stream,
      state: (row) => row.state,
      lag: (row) => row.lag_messages,
      rate: (row) => history.rate(row.stream, "received"),
      oldest: (row) => row.oldest_unacknowledged_ms,
      position: (row) => row.received?.sequence ?? -1,
      instance: (row) => row.instance ?? "",
    };
    return arranged(status.streams, filter, sort, (row) => row.stream, columns);
  }, [status.streams, history, filter, sort]);
  const body = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => body.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
  });
  const shown = status.streams.find((row) => row.stream === selected);
  return (
    <>
      <div className="tools">
        <FilterField value={filter} />
        <span className="muted" role="status">
          {rows.length} of {status.streams.length}
        </span>
      </div>
      {shown && <Details row={shown} history={history} mayControl={mayControl} />}
      <div
        ref={body}
        className="table"
        role="table"
        aria-label="Streams"
        aria-rowcount={rows.length + 1}
        // Scrolled by keyboard as well.
        tabIndex={0}
      >
        <div role="rowgroup" className="head">
          <div role="row" className="row" aria-rowindex={1}>
            {COLUMNS.map(([key, title]) => (
              <div key={key} role="columnheader" className={key} aria-sort={sorted(sort, key)}>
                <Button className="quiet" onPress={() => adjust({ sort: sort === `-${key}` ? key : `-${key}` })}>
                  {title}
                  <span aria-hidden="true">{sort === key ? " ↑" : sort === `-${key}` ? " ↓" : ""}</span>
                </Button>
              </div>
            ))}
          </div>
        </div>
        <div role="rowgroup" className="rows" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            return row ? (
              <div
                key={row.stream}
                role="row"
                className={row.stream === selected ? "row selected" : "row"}
                aria-rowindex={item.index + 2}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <Cells row={row} history={history} />
              </div>
            ) : null;
          })}
        </div>
      </div>
    </>
  );
}

function sorted(sort: string, key: string): "ascending" | "descending" | "none" {
  return sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none";
}

function Cells({ row, history }: { row: Stream; history: History }) {
  return (
    <>
      <div role="cell" className="name">
        <Button className="quiet" onPress={() => adjust({ stream: row.stream })}>
          {row.stream}
        </Button>
      </div>
      <div role="cell" className="state">
        <span className={`dot ${row.state} ${row.paused ? "paused" : ""}`} aria-hidden="true" />
        {row.paused ? "paused" : row.state}
      </div>
      <div role="cell" className="lag">
        <Sparkline values={history.of(row.stream).map((sample) => sample.lag)} slots={SAMPLES} />
        <span className="number">{count(row.lag_messages)}</span>
      </div>
      <div role="cell" className="rate">
        {rate(history.rate(row.stream, "received"))}
      </div>
      <div role="cell" className="oldest">
        {row.lag_messages ? duration(row.oldest_unacknowledged_ms) : "–"}
      </div>
      <div role="cell" className="position">
        {place(row.received)}
      </div>
      <div role="cell" className="instance">
        {row.instance ?? (row.last_instance ? `(${row.last_instance})` : "–")}
      </div>
    </>
  );
}

function Details({ row, history, mayControl }: { row: Stream; history: History; mayControl: boolean }) {
  return (
    <section className="details" aria-label={`Stream ${row.stream}`}>
      <h2>
        {row.stream}
        {mayControl && <Controls kind="stream" name={row.stream} paused={row.paused !== null} />}
        <Button className="quiet" onPress={() => adjust({ stream: "" })}>
          Close
        </Button>
      </h2>
      {row.detail && <p className="cause">{row.detail}</p>}
      <dl>
        <dt>State</dt>
        <dd>
          {row.state} for {duration(row.state_age_ms)}
          {row.paused && `, paused by ${row.paused.by}`}
        </dd>
        <dt>Received</dt>
        <dd>
          {place(row.received)}, {rate(history.rate(row.stream, "received"))}
        </dd>
        <dt>Acknowledged</dt>
        <dd>
          {place(row.acknowledged)}, {rate(history.rate(row.stream, "acknowledged"))}
        </dd>
        <dt>Lag</dt>
        <dd>
          {count(row.lag_messages)} messages, {bytes(row.lag_bytes)}
        </dd>
        <dt>Cursor</dt>
        <dd>
          <code>{cursor(row.received)}</code>
        </dd>
        <dt>Waits for</dt>
        <dd>{row.holders.map((holder) => `${holder.pipeline} (${holder.state})`).join(", ") || "nothing"}</dd>
      </dl>
    </section>
  );
}

function place(position: Position | null): string {
  if (!position) return "–";
  return position.epoch ? `${position.epoch}:${position.sequence}` : String(position.sequence);
}

/** The cursor as text if it is text, and as base64 otherwise. */
function cursor(position: Position | null): string {
  if (!position?.cursor) return "–";
  const binary = atob(position.cursor);
  return /^[\x20-\x7e]*$/.test(binary) ? binary : position.cursor;
}
