/** The documents of the gateway's API as the page reads them: see openapi.ts, and exact.ts for large numbers. */

import type { components } from "../client/openapi";
import type { HistoryFields } from "./history_fields";

type Schemas = components["schemas"];

/** A 64-bit integer: a bigint if a number does not hold it exactly. */
export type Large = number | bigint;

/** A document whose numbers of positions are exact. */
type Exact<T> = T extends (infer Element)[]
  ? Exact<Element>[]
  : T extends object
    ? { [Key in keyof T]: Key extends "epoch" | "sequence" | "after" | "end" ? Wide<T[Key]> : Exact<T[Key]> }
    : T;
type Wide<T> = T extends number ? Large : T;

/** A row whose ages are as of when the page heard of it: the gateway does not send a row again that only grows older. */
export interface Heard {
  heard_at?: number;
}

type Row<Name extends keyof Schemas> = Exact<Schemas[Name]> & Heard;

export type Position = Exact<Schemas["PositionDocument"]>;
export type Gateway = Row<"GatewayDocument">;
export type Stream = Row<"StreamDocument">;
export type Session = Row<"SessionDocument">;
export type SinkSession = Row<"SinkSessionDocument">;
export type Pipeline = Row<"PipelineDocument">;
/** A counter or a histogram of an application, for one value of its label. */
export type Series = Pipeline["series"][number];
export type Sink = Row<"SinkDocument">;
export type Deployment = Row<"DeploymentDocument">;
export type Process = Schemas["ProcessDocument"];
export type Problem = Schemas["ProblemDocument"];

/** A part with what it does, and its last error. */
export type Fallible = Pick<Stream, "condition" | "last_error" | "last_error_age_ms"> & Heard;

/** The report of a connector about itself. */
export type Reported = Pick<Session, keyof Session & keyof SinkSession>;

/** Whether all is well, and what is not. */
export type Health = Required<Schemas["HealthDocument"]>;

export interface Status {
  gateway: Gateway;
  streams: Stream[];
  sessions: Session[];
  pipelines: Pipeline[];
  sinks: Sink[];
  sink_sessions: SinkSession[];
  deployments: Deployment[];
  health: Health;
}

/** The status in the API. In an event it also contains its problems, as `health`. */
export type StatusDocument = Exact<Schemas["StatusDocument"]> & { health?: Health };

/** The last lines of the log of a process. */
export type ProcessLog = Schemas["LogDocument"];
/** A replay of dead letters that has ended: all is acknowledged. */
export type Replayed = Schemas["ReplayDocument"];
/** The changes with which a connector was restarted. */
export type Restarted = Schemas["RestartDocument"];

export const STAGES = [
  "planned",
  "read",
  "processed",
  "staged",
  "voted",
  "committed",
  "sink_committed",
  "acknowledged",
] as const satisfies (keyof Schemas["StagesDocument"])[];
export type Stage = (typeof STAGES)[number];

export type Batch = Exact<Schemas["BatchDocument"]>;
export type Timeline = Exact<Schemas["TimelineDocument"]>;
/** Where a message stands. */
export type Located = Exact<Schemas["MessageDocument"]>;

export type HistoryField = HistoryFields[keyof HistoryFields];

/** The values of a part in the last hour. */
export type PartHistory = Omit<Schemas["HistoryDocument"], "kind" | "values"> & {
  kind: keyof HistoryFields;
  values: Partial<Record<HistoryField, (number | null)[]>>;
};

/** Something that happened. */
export type HappenedEvent = Schemas["EventDocument"];

/** How a key, a value or a header begins. */
export type Preview = Schemas["PreviewDocument"];
export type MessagePreview = Exact<Schemas["MessagePreviewDocument"]>;
export type DeadLetter = Exact<Schemas["DeadLetterDocument"]>;
export type DeadLetters = Exact<Schemas["DeadLettersDocument"]>;
export type Sample = Exact<Schemas["PeekDocument"]>;
/** How the parts of a message begin. */
export type Content = Omit<MessagePreview, "epoch" | "sequence">;

/** Who is signed in, and with which rights. */
export type Me = Schemas["MeDocument"];
