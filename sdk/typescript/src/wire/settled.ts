/**
 * Waits until a promise is settled.
 *
 * @param promise - It must not reject.
 * @param ms - After how long `stuck` is called, each time.
 * @param stuck - Returns whether to wait no longer.
 */
export async function settledWithin(promise: Promise<unknown>, ms: number, stuck: () => boolean): Promise<void> {
  let settled = false;
  const finished = promise.then(() => {
    settled = true;
  });
  for (;;) {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms);
    });
    await Promise.race([finished, late]);
    clearTimeout(timer);
    if (settled || stuck()) return;
  }
}
