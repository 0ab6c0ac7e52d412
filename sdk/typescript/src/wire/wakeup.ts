/** Wakes the one task that waits for it. Being set is remembered until then. */
export class Wakeup {
  #isSet = false;
  #wake: (() => void) | undefined;

  /** Wakes the task, now or when it waits next. */
  set(): void {
    this.#isSet = true;
    this.#wake?.();
  }

  /** Waits until it is set, or for this many milliseconds, and resets it. */
  async wait(ms?: number): Promise<void> {
    if (!this.#isSet) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (ms !== undefined) timer = setTimeout(resolve, ms);
      });
      clearTimeout(timer);
      this.#wake = undefined;
    }
    this.#isSet = false;
  }
}
