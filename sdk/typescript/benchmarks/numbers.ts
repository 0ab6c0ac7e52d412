import { IDLE, run, type Item, type Position, type ReplayableSource } from "@headrace/sdk";

const MESSAGE_BYTES = 61;
/** How many messages have their times kept. */
const KEPT = 8192;
const VALUE = Buffer.alloc(MESSAGE_BYTES, "m");

/** Sends the messages 1 to `count`, `rate` of them a second, or as many as are accepted. */
class Numbers implements ReplayableSource {
  readonly name = "numbers-typescript";
  readonly idleMs = 1;
  began = 0;
  readonly latencies = new Float64Array(KEPT);
  readonly #sent = new Float64Array(KEPT);
  #settled = 0;

  constructor(
    readonly count: number,
    readonly rate: number,
  ) {}

  // eslint-disable-next-line @typescript-eslint/require-await -- as a source that waits for its system is written
  async *read(_partition: string, { position }: { position: Position | undefined }): AsyncGenerator<Item> {
    const first = Number(position?.sequence ?? 0n) + 1;
    this.began = performance.now();
    for (let sequence = first; sequence <= this.count; sequence++) {
      if (this.rate > 0) {
        while (performance.now() < this.began + ((sequence - first) / this.rate) * 1000) yield IDLE;
        this.#sent[sequence % KEPT] = performance.now();
      }
      yield { value: VALUE, sequence };
    }
  }

  acknowledged(_partition: string, { sequence }: Position): void {
    for (const now = performance.now(); this.#settled < Number(sequence);) {
      const at = ++this.#settled % KEPT;
      this.latencies[at] = now - (this.#sent[at] ?? 0);
    }
  }
}

const [count = NaN, rate = 0] = process.argv.slice(2).map(Number);
if (Number.isNaN(count) || Number.isNaN(rate)) {
  console.error("usage: numbers COUNT [RATE]");
  process.exit(2);
}
const numbers = new Numbers(count, rate);
process.exitCode = await run(numbers);
const seconds = (performance.now() - numbers.began) / 1000;
const latencies = numbers.latencies.slice(0, count).sort();
const measured = { messages: count, seconds };
console.log(JSON.stringify(rate > 0 ? { ...measured, ack_p50_ms: latencies[latencies.length >> 1] } : measured));
