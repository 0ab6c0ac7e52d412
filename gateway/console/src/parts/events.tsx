import { useState } from "react";
import type { HappenedEvent } from "../model/documents";
import { clockTime, duration } from "../model/format";
import { PartLink } from "./link";

const STEP = 20;
/** A mark beside the word: it distinguishes begin and end without colours, too. */
const MARKS: Record<string, string> = {
  attached: "→",
  detached: "←",
  restarted: "↻",
  rejected: "⊘",
  "fault-began": "✕",
  "fault-ended": "✓",
};

interface Props {
  /** The last one first. */
  events: HappenedEvent[];
  now: number;
  isKnown: boolean;
}

/** What happened, with the time and how long ago that is. */
export function Events({ events, now, isKnown }: Props) {
  const [shown, setShown] = useState(STEP);
  if (!events.length) {
    return <p className="muted">{isKnown ? "Nothing since the gateway started." : "Reading what happened…"}</p>;
  }
  return (
    <>
      <ol className="events" aria-label="What happened, the last one first">
        {events.slice(0, shown).map((event) => (
          <li key={event.number}>
            <time dateTime={event.at}>{clockTime(event.at)}</time>
            <span className="age">{duration(now - Date.parse(event.at))} ago</span>
            <span className={`kind ${event.kind}`}>
              <span aria-hidden="true">{MARKS[event.kind] ?? "·"}</span> {event.kind.replace("-", " ")}
            </span>
            <span className="what">
              <PartLink part={event.part} /> <span className="muted">{event.text}</span>
            </span>
          </li>
        ))}
      </ol>
      {events.length > shown && (
        <button type="button" onClick={() => setShown(shown + STEP)}>
          Show more
        </button>
      )}
    </>
  );
}
