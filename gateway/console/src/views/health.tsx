import { Control, type Kind } from "../parts/control";
import { causes, isFault, splitPart, type Cause } from "../model/causes";
import type { Status } from "../model/documents";
import { counted, dateAndTime, duration } from "../model/format";
import { PartLink } from "../parts/link";
import { useNow } from "../parts/now";

const MANY = 8;

export function Health({ status, mayControl }: { status: Status; mayControl: boolean }) {
  const found = causes(status.health.problems);
  const troubles = found.filter((cause) => isFault(cause.problem));
  const starting = found.filter((cause) => cause.problem.kind !== "paused" && !isFault(cause.problem));
  const paused = found.filter((cause) => cause.problem.kind === "paused");
  const unlisted = status.health.problems_in_all - status.health.problems.length;
  return (
    <>
      <p className={troubles.length ? "verdict bad" : "verdict good"}>
        {troubles.length ? `${troubles.length} in trouble` : "All is well"}
        <span className="muted">
          {counted(status.streams.length, "stream")} ·{" "}
          {counted(status.sessions.length + status.sink_sessions.length, "connector")} ·{" "}
          {counted(status.pipelines.length, "pipeline")} · {counted(status.sinks.length, "sink")}
        </span>
      </p>
      <List causes={troubles} mayControl={mayControl} />
      {unlisted > 0 && <p className="muted">and {unlisted} more problems</p>}
      {starting.length > 0 && <h2>Starting</h2>}
      <List causes={starting} mayControl={mayControl} />
      {paused.length > 0 && <h2>Paused</h2>}
      <List causes={paused} mayControl={mayControl} />
    </>
  );
}

function List({ causes: found, mayControl }: { causes: Cause[]; mayControl: boolean }) {
  const now = useNow();
  if (!found.length) return null;
  return (
    <ul className="problems">
      {found.slice(0, 100).map((cause) => (
        <li key={`${cause.root} ${cause.problem.kind}`} className={isFault(cause.problem) ? "bad" : "no-fault"}>
          <h3>
            <PartLink part={cause.root} /> <span className="tag">{cause.problem.kind}</span>
          </h3>
          <p className="cause">{cause.problem.cause}</p>
          <p className="muted">
            since {dateAndTime(cause.problem.since)}, for {duration(now - Date.parse(cause.problem.since))}
          </p>
          <p className="remedy">
            <strong>Remedy</strong> {cause.problem.remedy}
            {mayControl && cause.problem.kind === "paused" && <Resume part={cause.root} />}
          </p>
          {cause.affected.length > 0 && <Affected parts={cause.affected} />}
        </li>
      ))}
    </ul>
  );
}

function Resume({ part }: { part: string }) {
  const [kind, name] = splitPart(part);
  return ["stream", "connector", "pipeline", "sink"].includes(kind) ? (
    <Control action="resume" kind={kind as Kind} name={name} />
  ) : null;
}

function Affected({ parts }: { parts: string[] }) {
  return (
    <p className="affected">
      <span className="muted">Waits for it:</span>
      {parts.slice(0, MANY).map((part) => (
        <PartLink key={part} part={part} />
      ))}
      {parts.length > MANY && <span className="muted">and {parts.length - MANY} more</span>}
    </p>
  );
}
