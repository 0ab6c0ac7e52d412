package io.headrace.examples.jdbc;

import io.headrace.sdk.Reporter;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** The state that was reported last. */
final class Reported implements Reporter {
  volatile String state = "";

  /** The state that a test waits for. */
  final BlockingQueue<String> waits = new LinkedBlockingQueue<>();

  @Override
  public void connecting() {
    state = "connecting";
  }

  @Override
  public void running() {
    state = "running";
  }

  @Override
  public void degraded(String error) {
    state = "degraded: " + error;
  }

  @Override
  public void waiting(String reason) {
    state = "waiting: " + reason;
    waits.add(reason);
  }
}
