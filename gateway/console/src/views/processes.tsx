import { useMemo, useState } from "react";
import { post } from "../client/api";
import type { Deployment, Heard, Process, ProcessLog, Status } from "../model/documents";
import { bytes, count, duration, firstLine } from "../model/format";
import { adjust, useRoute } from "../model/route";
import { Age, AgedError } from "../parts/age";
import { Mark } from "../parts/mark";
import { Grid, type Column } from "../parts/grid";
import { PartLink } from "../parts/link";

const LINES = 100;
const WAITS_MS = 20_000;

/** A process, or the supervisor of a deployment, of which only its log and the time since it registered are known. */
interface Row extends Omit<Process, "kind" | "restarts">, Heard {
  deployment: string;
  /** Of a supervisor: why the file of its deployment is invalid. */
  file_fault?: string | null;
  file_fault_age_ms?: number | null;
  kind: Process["kind"] | typeof SUPERVISOR;
  restarts: number | null;
}

const SUPERVISOR = "supervisor";

const nameOf = (row: Row): string => `${row.name} · ${row.deployment}`;
// A stream waits for a micro-batch, which is well; a process waits to be started, which is not.
const markOf = (row: Row): string => (row.state === "waits" ? "waits_to_start" : row.state);

/** The processes of all deployments: how often they were started again, and why, and the last lines of their logs. */
export function Processes({ status, mayControl }: { status: Status; mayControl: boolean }) {
  const { filter = "", sort = "name", process: selected } = useRoute();
  const rows = useMemo(
    () =>
      status.deployments.flatMap((one) => [
        ...one.processes.map((each) => ({ ...each, deployment: one.deployment, heard_at: one.heard_at ?? 0 })),
        supervisorOf(one),
      ]),
    [status.deployments],
  );
  const shown = rows.find((row) => nameOf(row) === selected);
  if (!rows.length) return <p className="muted">No deployment is registered at this gateway.</p>;
  return (
    <Grid
      label="Processes"
      kind="processes"
      rows={rows}
      columns={COLUMNS}
      name={nameOf}
      filter={filter}
      sort={sort}
      selected={selected}
      onSelect={(process) => adjust({ process })}
    >
      {shown && <Details key={nameOf(shown)} row={shown} mayControl={mayControl} />}
    </Grid>
  );
}

function supervisorOf({ deployment, age_ms, file_fault, file_fault_age_ms, heard_at = 0 }: Deployment): Row {
  return {
    file_fault,
    file_fault_age_ms,
    name: SUPERVISOR,
    deployment,
    kind: SUPERVISOR,
    // It is registered.
    state: "runs",
    state_age_ms: age_ms,
    heard_at,
    pipelines: [],
    restarts: null,
    reason: null,
    reason_age_ms: null,
    log_fault: null,
    log_fault_age_ms: null,
    last_warning: null,
    next_start_ms: null,
    version: null,
    memory_bytes: null,
    pid: null,
  };
}

const COLUMNS: Column<Row>[] = [
  { key: "name", title: "Process", value: nameOf, cell: nameOf },
  { key: "kind", title: "Kind", value: (row) => row.kind, cell: (row) => row.kind },
  {
    key: "state",
    title: "State",
    value: (row) => row.state,
    cell: (row) => <Mark of={markOf(row)} label={row.state} />,
  },
  {
    key: "since",
    title: "Since",
    value: (row) => row.state_age_ms,
    cell: (row) => <Age ms={row.state_age_ms} row={row} />,
  },
  {
    key: "restarts",
    title: "Restarts",
    value: (row) => row.restarts ?? -1,
    cell: (row) => (row.restarts === null ? "–" : count(row.restarts)),
  },
  {
    key: "memory",
    title: "Memory",
    value: (row) => row.memory_bytes ?? 0,
    cell: (row) => (row.memory_bytes === null ? "–" : bytes(row.memory_bytes)),
  },
  { key: "version", title: "Version", value: (row) => row.version ?? "", cell: (row) => row.version ?? "–" },
  {
    key: "reason",
    title: "Why it last ended",
    value: (row) => row.reason ?? "",
    cell: (row) => <End row={row} />,
  },
];

/** Why a process last ended. One that is connected again has overcome that. */
function End({ row }: { row: Row }) {
  if (row.reason === null) return null;
  if (row.reason_age_ms === null) return <>{firstLine(row.reason)}</>;
  return <AgedError message={row.reason} ms={row.reason_age_ms} row={row} isOver={row.state === "runs"} />;
}

function Details({ row, mayControl }: { row: Row; mayControl: boolean }) {
  const [log, setLog] = useState<ProcessLog | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);

  async function read(): Promise<void> {
    setBusy(true);
    setError("");
    try {
      const body = { name: row.name, deployment: row.deployment, lines: LINES, timeout_ms: WAITS_MS };
      setLog((await post("processes/log", body, WAITS_MS + 5000)) as ProcessLog);
    } catch (refused) {
      setError(refused instanceof Error ? refused.message : String(refused));
    } finally {
      setBusy(false);
    }
  }

  return (
    <section className="details" aria-label={`Process ${nameOf(row)}`}>
      <h2>
        {nameOf(row)}
        <button type="button" className="quiet" onClick={() => adjust({ process: "" })}>
          Close
        </button>
      </h2>
      {row.reason && (
        <p className="cause">
          <End row={row} />
        </p>
      )}
      {row.file_fault && row.file_fault_age_ms != null && (
        <p className="cause">
          The file of the deployment is invalid for <Age ms={row.file_fault_age_ms} row={row} />, and what was valid
          before stays in effect: {row.file_fault}
        </p>
      )}
      {row.log_fault && row.log_fault_age_ms !== null && (
        <p className="cause">
          Its log cannot be written for <Age ms={row.log_fault_age_ms} row={row} />: {row.log_fault}
        </p>
      )}
      <dl>
        <dt>State</dt>
        <dd>
          {row.kind === SUPERVISOR ? "registered" : row.state} for <Age ms={row.state_age_ms} row={row} />
          {row.next_start_ms !== null && `, starts again in ${duration(row.next_start_ms)}`}
        </dd>
        {row.restarts !== null && (
          <>
            <dt>Restarts</dt>
            <dd>{count(row.restarts)}</dd>
            <dt>Process id</dt>
            <dd>{row.pid ?? "none: it does not run"}</dd>
          </>
        )}
        {row.pipelines.length > 0 && (
          <>
            <dt>Pipelines</dt>
            <dd>
              {row.pipelines.map((name) => (
                <PartLink key={name} part={`pipeline ${name}`} />
              ))}
            </dd>
          </>
        )}
      </dl>
      {mayControl ? (
        <button type="button" disabled={busy} onClick={() => void read()}>
          {log ? "Read the log again" : "Read its log"}
        </button>
      ) : (
        <p className="muted">Its log needs the right control.</p>
      )}
      {error && (
        <p role="alert" className="error">
          {error}
        </p>
      )}
      {log && (
        <>
          <p className="muted">
            The last {count(log.lines.length)} lines of <code>{log.path}</code>
          </p>
          <pre className="log" tabIndex={0} aria-label={`Log of ${row.name}`}>
            {log.lines.join("\n") || "It is empty."}
          </pre>
        </>
      )}
    </section>
  );
}
