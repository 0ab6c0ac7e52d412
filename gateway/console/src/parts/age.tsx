import { ageOf } from "../model/changes";
import type { Fallible, Heard } from "../model/documents";
import { duration, firstLine, timeOfDay } from "../model/format";
import { useNow } from "./now";

/** How old something is. It grows while nothing else of its row changes. */
export function Age({ ms, row }: { ms: number; row: Heard }) {
  return <>{duration(ageOf(ms, row, useNow()))}</>;
}

interface ErrorProps {
  message: string;
  ms: number;
  row: Heard;
  isOver: boolean;
}

/** An error with its age, its time of day, and whether it is over. */
export function AgedError({ message, ms, row, isOver }: ErrorProps) {
  const now = useNow();
  const age = ageOf(ms, row, now);
  return (
    <span className={isOver ? "muted" : ""}>
      {isOver && <span className="tag good">over</span>}{" "}
      <strong>
        {duration(age)} ago <time>({timeOfDay(now - age, now)})</time>
      </strong>{" "}
      {firstLine(message)}
    </span>
  );
}

/** The last error of a part; nothing if there was none. */
export function LastError({ row }: { row: Fallible }) {
  if (row.last_error === null) return null;
  return (
    <AgedError
      message={row.last_error.message}
      ms={row.last_error_age_ms ?? 0}
      row={row}
      isOver={row.last_error.is_over}
    />
  );
}
