package io.headrace.kafkaconnect;

import java.time.Duration;

/**
 * When messages without content fill a micro-batch. A query reads a planned micro-batch again up to
 * its last message. If what a connector returns again is fewer records, as in a snapshot that
 * begins again, that message must come from the bridge.
 */
final class Filling {
  private static final long FIRST = Duration.ofSeconds(20).toNanos();
  private static final int MAX_MESSAGES = 4096;
  private static final int GROWTH = 16;

  private long appended;
  private boolean waiting = true;
  private long after = FIRST;
  private int messages = 1;

  Filling(long now) {
    this.appended = now;
  }

  void appended(long now) {
    appended = now;
  }

  /** Something of this run is in the checkpoint: no micro-batch of an earlier run is left. */
  void acknowledged() {
    waiting = false;
  }

  /** Whether a query may read a micro-batch again that was planned in an earlier run. */
  boolean isWaiting() {
    return waiting;
  }

  /** Whether nothing has come for so long that the micro-batch seems to lack messages. */
  boolean isDue(long now) {
    return waiting && now - appended >= after;
  }

  /** How many messages to send now; more the next time, after twice the wait. */
  int next() {
    int number = messages;
    after = 2 * after;
    messages = Math.min(GROWTH * messages, MAX_MESSAGES);
    return number;
  }
}
