import { IDLE, PositionLostError, WRITTEN } from "../src/index.js";
import type {
  AtLeastOnceSink,
  DeliveredItem,
  IdempotentSink,
  Item,
  Message,
  Outcomes,
  Part,
  ReadContext,
  Recovered,
  Refused,
  RedeliveringSource,
  ReplayableSource,
  ResumableSource,
  Rows,
  Sink,
  Source,
  Starts,
  Transaction,
  TwoPhaseSink,
} from "../src/index.js";
import { hex } from "./vectors.js";

/** A message that a script declares. */
export interface Written {
  readonly value: string | null;
  readonly sequence?: string;
  readonly key?: string | null;
  readonly event_time?: string;
  readonly message_id?: string;
  readonly headers?: [string, string | null][];
  readonly cursor?: string;
}

/** A source that a script declares. */
export interface DeclaredSource {
  readonly name: string;
  readonly kind: "replayable" | "redelivering" | "resumable";
  readonly partitions: Record<string, { messages: Written[]; then: "ends" | "waits"; pruned?: boolean }>;
  readonly starts?: Record<string, string>;
}

/** A sink that a script declares. */
export interface DeclaredSink {
  readonly name: string;
  readonly mode: "two_phase" | "batch_idempotent" | "at_least_once";
  readonly refuses?: string[];
  readonly fails_on?: string[];
}

/** The source of a script, and which messages were acknowledged to it. */
export function sourceOf(declared: DeclaredSource): { source: Source; settled: (string | null)[] } {
  const settled: (string | null)[] = [];
  const { name, partitions, starts } = declared;
  const common = { name, partitions: () => Object.keys(partitions).sort() };
  const messageOf = (written: Written): Message => ({
    value: hex(written.value),
    key: hex(written.key),
    eventTime: written.event_time === undefined ? undefined : BigInt(written.event_time),
    messageId: written.message_id,
    headers: (written.headers ?? []).map(([header, value]) => [header, hex(value)] as const),
  });
  if (declared.kind === "redelivering") {
    const source: RedeliveringSource<string | null> = {
      ...common,
      kind: "redelivering",
      *read(partition): Generator<DeliveredItem<string | null>> {
        const { messages } = partitions[partition];
        for (let i = 0; ; i++) {
          while (i >= messages.length) yield IDLE;
          const { value } = messages[i];
          if (!settled.includes(value)) yield { value: hex(value), token: value };
        }
      },
      settle: (_, tokens) => {
        settled.push(...tokens);
      },
    };
    return { source, settled };
  }
  if (declared.kind === "resumable") {
    const source: ResumableSource = {
      ...common,
      kind: "resumable",
      *read(partition: string, { position }: ReadContext): Generator<Item> {
        const { messages } = partitions[partition];
        for (let i = 0; ; i++) {
          while (i >= messages.length) yield IDLE;
          const cursor = hex(messages[i].cursor) ?? undefined;
          if (position?.cursor && cursor && Buffer.compare(cursor, position.cursor) <= 0) continue;
          yield { ...messageOf(messages[i]), cursor };
        }
      },
    };
    return { source, settled };
  }
  const source: ReplayableSource = {
    ...common,
    *read(partition: string, { position }: ReadContext): Generator<Item> {
      const { messages, then, pruned } = partitions[partition];
      const first = BigInt(messages[0]?.sequence ?? 0);
      if (pruned === true && position !== undefined && position.sequence + 1n < first) {
        throw new PositionLostError("pruned", { earliest: first });
      }
      for (let i = 0; i < messages.length || then === "waits"; i++) {
        while (i >= messages.length) yield IDLE;
        const written = messages[i];
        const sequence = BigInt(written.sequence!);
        if (position !== undefined && sequence <= position.sequence) continue;
        yield { ...messageOf(written), sequence, cursor: hex(written.cursor) ?? undefined };
      }
    },
    ...(starts && {
      starts: (): Starts =>
        Object.fromEntries(
          Object.entries(starts).map(([partition, sequence]) => [partition, { sequence: BigInt(sequence) }]),
        ),
    }),
  };
  return { source, settled };
}

type Value = string | null;

/** The values of rows, and what the sink answers about them. */
function taken(rows: Rows, { refuses, fails_on }: DeclaredSink): { values: Value[]; outcomes: Outcomes } {
  const values = [...rows].map(({ value }) => value?.toString("hex") ?? null);
  const failing = values.find((value) => value !== null && fails_on?.includes(value));
  if (failing !== undefined) throw new Error(`the script fails on ${failing}`);
  const isRefused = (value: Value): boolean => value !== null && refuses?.includes(value) === true;
  return {
    values: values.filter((value) => !isRefused(value)),
    outcomes: values.map((value) => (isRefused(value) ? { refused: "the script refuses it" } : WRITTEN)),
  };
}

const nameOf = ({ pipeline, batch }: Transaction): string => `${pipeline}/${batch}`;
const keyOf = ({ transaction, partition, attempt }: Part): string => `${nameOf(transaction)}/${partition}/${attempt}`;

/** The sink of a script, and what it shows. */
export function sinkOf(declared: DeclaredSink): { sink: Sink; visible: () => Value[] } {
  if (declared.mode === "two_phase") {
    const sink = new ScriptedSink(declared);
    return { sink, visible: () => [...sink.shown.values()].flat() };
  }
  const shown = new Map<string, Value[]>();
  const visible = (): Value[] => [...shown.values()].flat();
  if (declared.mode === "batch_idempotent") {
    const sink: IdempotentSink = {
      name: declared.name,
      mode: "batch-idempotent",
      async write(transaction, rows) {
        const values: Value[] = [];
        for await (const some of rows) values.push(...taken(some, declared).values);
        if (!shown.has(nameOf(transaction))) shown.set(nameOf(transaction), values);
      },
    };
    return { sink, visible };
  }
  const sink: AtLeastOnceSink = {
    name: declared.name,
    mode: "at-least-once",
    write(rows) {
      const { values, outcomes } = taken(rows, declared);
      shown.set("", [...(shown.get("") ?? []), ...values]);
      return outcomes;
    },
  };
  return { sink, visible };
}

class ScriptedSink implements TwoPhaseSink {
  readonly mode = "two-phase";
  readonly name: string;
  readonly shown = new Map<string, Value[]>();
  readonly #staged = new Map<string, { part: Part; values: Value[] }>();
  readonly #prepared = new Map<string, Transaction>();
  readonly #committed = new Map<string, Transaction>();

  constructor(private readonly declared: DeclaredSink) {
    this.name = declared.name;
  }

  async stage(part: Part, rows: AsyncIterable<Rows>): Promise<Outcomes> {
    const all: Value[] = [];
    const answers: (typeof WRITTEN | Refused)[] = [];
    for await (const some of rows) {
      const { values, outcomes } = taken(some, this.declared);
      all.push(...values);
      answers.push(...(outcomes ?? []));
    }
    this.#staged.set(keyOf(part), { part, values: all });
    return answers;
  }

  drop(part: Part): void {
    this.#staged.delete(keyOf(part));
  }

  prepare(transaction: Transaction, parts: readonly Part[]): void {
    const counting = parts.map(keyOf);
    const missing = counting.find((key) => !this.#staged.has(key));
    if (missing !== undefined) throw new Error(`part ${missing} is not staged`);
    for (const key of this.#of(transaction)) if (!counting.includes(key)) this.#staged.delete(key);
    this.#prepared.set(nameOf(transaction), transaction);
  }

  commit(transaction: Transaction): void {
    const name = nameOf(transaction);
    if (this.#prepared.has(name)) {
      const parts = this.#of(transaction).map((key) => this.#staged.get(key)!);
      parts.sort((a, b) => a.part.partition - b.part.partition);
      this.shown.set(
        name,
        parts.flatMap(({ values }) => values),
      );
      this.#committed.set(transaction.pipeline, transaction);
    } else if (!this.shown.has(name)) throw new Error(`transaction ${name} is unknown`);
    this.abort(transaction);
  }

  abort(transaction: Transaction): void {
    this.#prepared.delete(nameOf(transaction));
    for (const key of this.#of(transaction)) this.#staged.delete(key);
  }

  recover(): Recovered {
    return {
      staged: [...this.#staged.values()].map(({ part }) => part),
      prepared: [...this.#prepared.values()],
      committed: [...this.#committed.values()],
    };
  }

  #of(transaction: Transaction): string[] {
    return [...this.#staged.keys()].filter((key) => key.startsWith(`${nameOf(transaction)}/`));
  }
}
