import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";

import { run, type Part, type Rows, type Transaction, type TwoPhaseSink } from "@headrace/sdk";

/** Writes the values of each transaction into one file, as lines of JSON, exactly once: `visible/PIPELINE~BATCH`. */
class FileSink implements TwoPhaseSink {
  readonly name = "lines";
  readonly mode = "two-phase";

  constructor(private readonly folder: string) {}

  async stage(part: Part, rows: AsyncIterable<Rows>): Promise<void> {
    const lines = async function* (): AsyncGenerator<string> {
      const { transaction, partition, attempt } = part;
      yield `${JSON.stringify({ pipeline: transaction.pipeline, partition, attempt })}\n`;
      for await (const some of rows) {
        yield [...some].map(({ value }) => `${JSON.stringify(value?.toString() ?? null)}\n`).join("");
      }
    };
    await this.write("staged", nameOf(part), lines());
  }

  async drop(part: Part): Promise<void> {
    await this.remove("staged", nameOf(part));
  }

  async prepare(transaction: Transaction, parts: readonly Part[]): Promise<void> {
    const counting = parts.map(nameOf);
    const staged = (await this.list("staged")).filter((name) => isOf(transaction, name));
    const missing = counting.find((name) => !staged.includes(name));
    if (missing !== undefined) throw new Error(`part ${missing} is not staged`);
    for (const name of staged) if (!counting.includes(name)) await this.remove("staged", name);
    if (isHash(nameOf(transaction))) await this.write("pipelines", pipelineOf(transaction), [transaction.pipeline]);
    await this.write("prepared", nameOf(transaction), [JSON.stringify(counting)]);
  }

  async commit(transaction: Transaction): Promise<void> {
    const name = nameOf(transaction);
    if (!(await this.list("visible")).includes(name)) {
      // Throws if the transaction is unknown: then what was staged is lost, and the query must learn of it.
      const parts = JSON.parse(await readFile(join(this.folder, "prepared", name), "utf8")) as string[];
      const contents = parts.map(async (part) => {
        const staged = await readFile(join(this.folder, "staged", part), "utf8");
        return staged.slice(staged.indexOf("\n") + 1);
      });
      await this.write("visible", name, contents);
    }
    await this.abort(transaction);
  }

  async abort(transaction: Transaction): Promise<void> {
    await this.remove("prepared", nameOf(transaction));
    for (const name of await this.list("staged")) {
      if (isOf(transaction, name)) await this.remove("staged", name);
    }
  }

  async recover(): Promise<{ staged: Part[]; prepared: Transaction[]; committed: Transaction[] }> {
    for (const state of ["pipelines", "staged", "prepared", "visible", "written"]) {
      await mkdir(join(this.folder, state), { recursive: true });
    }
    const visible = await this.list("visible");
    for (const name of await this.list("prepared")) {
      if (visible.includes(name)) await this.abort(await this.transactionOf(name)); // A crash has interrupted the commit.
    }
    const last = new Map<string, Transaction>();
    for (const transaction of await this.transactions(visible)) {
      if (transaction.batch >= (last.get(transaction.pipeline)?.batch ?? 0n))
        last.set(transaction.pipeline, transaction);
    }
    return {
      staged: await Promise.all((await this.list("staged")).map((name) => this.partOf(name))),
      prepared: await this.transactions(await this.list("prepared")),
      committed: [...last.values()],
    };
  }

  close(): void {
    console.error("the sink is closed");
  }

  private async partOf(name: string): Promise<Part> {
    const [head = ""] = (await readFile(join(this.folder, "staged", name), "utf8")).split("\n", 1);
    const { pipeline, ...part } = JSON.parse(head) as Pick<Part, "partition" | "attempt"> & { pipeline: string };
    return { ...part, transaction: { pipeline, batch: batchOf(name) } };
  }

  private async transactionOf(name: string): Promise<Transaction> {
    const [pipeline] = name.split("~");
    const isWhole = !isHash(name);
    return {
      pipeline: isWhole
        ? decodeURIComponent(pipeline)
        : await readFile(join(this.folder, "pipelines", pipeline), "utf8"),
      batch: batchOf(name),
    };
  }

  private transactions(names: string[]): Promise<Transaction[]> {
    return Promise.all(names.map((name) => this.transactionOf(name)));
  }

  private list(state: string): Promise<string[]> {
    return readdir(join(this.folder, state));
  }

  private async remove(state: string, name: string): Promise<void> {
    await rm(join(this.folder, state, name), { force: true });
  }

  /** Writes a file so that it is either there, durably and completely, or not at all. */
  private async write(
    state: string,
    name: string,
    contents: AsyncIterable<string> | Iterable<string | Promise<string>>,
  ): Promise<void> {
    const unfinished = join(this.folder, "written", name);
    const file = await open(unfinished, "w");
    try {
      for await (const content of contents) await file.appendFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(unfinished, join(this.folder, state, name));
    const folder = await open(join(this.folder, state));
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }
}

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex");

function nameOf(what: Part | Transaction): string {
  if ("pipeline" in what) return `${pipelineOf(what)}~${what.batch}`;
  // An attempt may be as long as a file name, and contains a slash.
  return `${nameOf(what.transaction)}~${what.partition}~${hashOf(what.attempt)}`;
}

/** The id of a pipeline as part of a file name. One that is too long for that is a hash, and is kept in `pipelines`. */
function pipelineOf({ pipeline }: Transaction): string {
  const encoded = encodeURIComponent(pipeline).replaceAll("~", "%7E");
  return encoded.length <= 128 ? encoded : `@${hashOf(pipeline)}`;
}

function isHash(name: string): boolean {
  return name.startsWith("@");
}

function batchOf(name: string): bigint {
  return BigInt(name.split("~")[1]);
}

function isOf(transaction: Transaction, name: string): boolean {
  return name.startsWith(`${nameOf(transaction)}~`);
}

const [folder = "lines"] = process.argv.slice(2);
process.exitCode = await run(new FileSink(folder));
