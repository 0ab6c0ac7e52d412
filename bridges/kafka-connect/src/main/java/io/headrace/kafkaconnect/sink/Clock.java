package io.headrace.kafkaconnect.sink;

import java.util.concurrent.TimeUnit;

/** The time, and waiting for it to pass. */
interface Clock {
  /** The time of the machine. */
  Clock SYSTEM =
      new Clock() {
        @Override
        public long nanos() {
          return System.nanoTime();
        }

        @Override
        public void sleep(long nanos) throws InterruptedException {
          TimeUnit.NANOSECONDS.sleep(nanos);
        }
      };

  /** As {@link System#nanoTime}. */
  long nanos();

  /** Waits; not at all if it is not positive. */
  void sleep(long nanos) throws InterruptedException;
}
