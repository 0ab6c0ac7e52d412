package io.headrace.sdk.internal;

import io.headrace.protocol.v1.ConnectorError;
import io.headrace.protocol.v1.ConnectorState;
import io.headrace.protocol.v1.Report;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;

/**
 * What operators are told of a connector. It outlives sessions, so that the errors of one that
 * broke are reported in the next.
 */
public final class Reports {
  private static final int MOST_ERRORS = 100;
  private static final int MOST_BYTES = 4096;
  private static final long INTERVAL_NANOS = Duration.ofSeconds(1).toNanos();

  private final ReentrantLock lock = new ReentrantLock();
  private final ArrayDeque<Noted> errors = new ArrayDeque<>();
  private final Map<String, String> problems = new LinkedHashMap<>();
  private long stateSince = System.nanoTime();
  private boolean degraded;
  private boolean wanted;
  private boolean stateReported;
  private long reportedAt;

  /** An error, and when it happened. */
  private record Noted(String message, String where, long at) {}

  /** A session begins. */
  public void begin(boolean gatewayWantsThem) {
    lock.lock();
    try {
      wanted = gatewayWantsThem;
      stateReported = false;
      problems.clear();
      updateState();
      reportedAt = System.nanoTime() - INTERVAL_NANOS;
    } finally {
      lock.unlock();
    }
  }

  /** Notes an error that the connector survives. */
  public void error(String stream, String message) {
    lock.lock();
    try {
      if (errors.size() == MOST_ERRORS) {
        errors.poll();
      }
      errors.add(new Noted(cut(message), stream, System.nanoTime()));
    } finally {
      lock.unlock();
    }
  }

  /** Something does not work as it should, until it has {@link #recovered}. */
  public void degraded(String what, String message) {
    lock.lock();
    try {
      error(what.contains("/") ? what : "", message);
      String reason = cut(message);
      if (!reason.equals(problems.put(what, reason))) {
        stateReported = false;
      }
      updateState();
    } finally {
      lock.unlock();
    }
  }

  /** Something works. */
  public void recovered(String what) {
    lock.lock();
    try {
      if (problems.remove(what) != null) {
        stateReported = false;
        updateState();
      }
    } finally {
      lock.unlock();
    }
  }

  /** The report to send now; null if there is none. */
  public Report next() {
    lock.lock();
    try {
      long now = System.nanoTime();
      boolean errorsDue = !errors.isEmpty() && now - reportedAt >= INTERVAL_NANOS;
      if (!wanted || (stateReported && !errorsDue)) {
        return null;
      }
      Report.Builder report =
          Report.newBuilder()
              .setState(
                  degraded
                      ? ConnectorState.CONNECTOR_STATE_DEGRADED
                      : ConnectorState.CONNECTOR_STATE_RUNNING)
              .setStateAgeMs(millis(now - stateSince))
              .setReason(problems.isEmpty() ? "" : problems.values().iterator().next());
      for (Noted error; (error = errors.poll()) != null; ) {
        report.addErrors(
            ConnectorError.newBuilder()
                .setMessage(error.message)
                .setStream(error.where)
                .setAgeMs(millis(now - error.at)));
      }
      stateReported = true;
      reportedAt = now;
      return report.build();
    } finally {
      lock.unlock();
    }
  }

  /** When to look again though nothing has happened: a time of {@link System#nanoTime()}. */
  public long nextLook(long otherwise) {
    lock.lock();
    try {
      long due = reportedAt + INTERVAL_NANOS;
      return wanted && !errors.isEmpty() && due - otherwise < 0 ? due : otherwise;
    } finally {
      lock.unlock();
    }
  }

  private void updateState() {
    if (degraded == problems.isEmpty()) {
      degraded = !problems.isEmpty();
      stateSince = System.nanoTime();
      stateReported = false;
    }
  }

  private static long millis(long nanos) {
    return Duration.ofNanos(nanos).toMillis();
  }

  /** At most as many bytes as a text may have. */
  private static String cut(String text) {
    String cut = text;
    while (cut.getBytes(StandardCharsets.UTF_8).length > MOST_BYTES) {
      cut = cut.substring(0, cut.length() * 9 / 10);
    }
    return cut;
  }
}
