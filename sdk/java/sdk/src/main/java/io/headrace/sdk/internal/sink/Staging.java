package io.headrace.sdk.internal.sink;

import io.headrace.sdk.sink.Part;
import java.util.concurrent.CountDownLatch;

/** A part that is being staged, or is staged. */
final class Staging {
  final long id;
  final Part part;
  final RowQueue rows;

  /** Counted down once its thread has ended. */
  final CountDownLatch over = new CountDownLatch(1);

  /** How many rows it has; known once all have arrived. */
  volatile long expected;

  /** Whether the sink has staged it. */
  volatile boolean staged;

  Staging(long id, Part part, RowQueue rows) {
    this.id = id;
    this.part = part;
    this.rows = rows;
  }
}
