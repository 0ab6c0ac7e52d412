package io.headrace.sdk.internal;

import io.headrace.protocol.v1.ConnectorError;
import io.headrace.protocol.v1.ConnectorState;
import io.headrace.protocol.v1.Report;
import io.headrace.sdk.Reporter;
import io.headrace.sdk.internal.wire.Mutex;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Reports of a connector for operators. They outlive sessions, so that the errors of one that broke
 * are reported in the next.
 */
public final class Reports implements Reporter {
  private static final int MAX_ERRORS = 100;
  private static final int MAX_BYTES = 4096;
  private static final long INTERVAL_NANOS = Duration.ofSeconds(1).toNanos();
  private static final long HEARTBEAT_NANOS = Duration.ofSeconds(2).toNanos();

  private final Mutex lock = new Mutex();
  private final ArrayDeque<Noted> errors = new ArrayDeque<>();
  private final Map<String, String> problems = new LinkedHashMap<>();
  private final Runnable changed;
  private ConnectorState said = ConnectorState.CONNECTOR_STATE_RUNNING;
  private String saidReason = "";
  private ConnectorState state = ConnectorState.CONNECTOR_STATE_RUNNING;
  private long stateSince = System.nanoTime();
  private boolean stateReported;
  private boolean saidReported = true;
  private long reportedAt;

  /** An error, and when it happened. */
  private record Noted(String message, String where, long at) {}

  /**
   * Reports of a connector that runs.
   *
   * @param changed has the session look, if there is one
   */
  public Reports(Runnable changed) {
    this.changed = changed;
  }

  @Override
  public void connecting() {
    say(ConnectorState.CONNECTOR_STATE_CONNECTING, "");
  }

  @Override
  public void running() {
    say(ConnectorState.CONNECTOR_STATE_RUNNING, "");
  }

  @Override
  public void degraded(String error) {
    say(ConnectorState.CONNECTOR_STATE_DEGRADED, error);
  }

  @Override
  public void waiting(String reason) {
    say(ConnectorState.CONNECTOR_STATE_WAITING, reason);
  }

  /** A session begins. */
  public void begin() {
    try (var ignored = lock.hold()) {
      stateReported = false;
      problems.clear();
      updateState();
      reportedAt = System.nanoTime() - INTERVAL_NANOS;
    }
  }

  /** Notes an error that the connector survives. */
  public void error(String stream, String message) {
    try (var ignored = lock.hold()) {
      if (errors.size() == MAX_ERRORS) {
        errors.poll();
      }
      errors.add(new Noted(cut(message), stream, System.nanoTime()));
    }
  }

  /** Something does not work as it should, until it has {@link #recovered}. */
  public void failing(String what, String message) {
    try (var ignored = lock.hold()) {
      error(what.contains("/") ? what : "", message);
      String reason = cut(message);
      if (!reason.equals(problems.put(what, reason))) {
        stateReported = false;
      }
      updateState();
    }
  }

  /** Something works. */
  public void recovered(String what) {
    try (var ignored = lock.hold()) {
      if (problems.remove(what) != null) {
        stateReported = false;
        updateState();
      }
    }
  }

  /** The report to send now; null if there is none. */
  public Report next() {
    try (var ignored = lock.hold()) {
      long now = System.nanoTime();
      if (stateReported && now - reportedAt < pause()) {
        return null;
      }
      Report.Builder report =
          Report.newBuilder()
              .setState(state)
              .setStateAgeMs(millis(now - stateSince))
              .setReason(reason());
      for (Noted error; (error = errors.poll()) != null; ) {
        report.addErrors(
            ConnectorError.newBuilder()
                .setMessage(error.message)
                .setStream(error.where)
                .setAgeMs(millis(now - error.at)));
      }
      stateReported = true;
      saidReported = true;
      reportedAt = now;
      return report.build();
    }
  }

  /** When to look again though nothing has happened: a time of {@link System#nanoTime()}. */
  public long nextLook(long otherwise) {
    try (var ignored = lock.hold()) {
      long due = reportedAt + pause();
      return due - otherwise < 0 ? due : otherwise;
    }
  }

  /** Whether there is something to report that may wait until a second has passed. */
  private boolean hasNews() {
    return !errors.isEmpty() || !saidReported;
  }

  /** How long after the last report the next one is due. */
  private long pause() {
    return hasNews() ? INTERVAL_NANOS : HEARTBEAT_NANOS;
  }

  /** Takes what the source or sink says of itself. */
  private void say(ConnectorState what, String why) {
    try (var ignored = lock.hold()) {
      String reason = cut(String.valueOf(why));
      if (what == said && reason.equals(saidReason)) {
        return;
      }
      if (what == ConnectorState.CONNECTOR_STATE_DEGRADED) {
        error("", reason);
      }
      said = what;
      saidReason = reason;
      saidReported = false;
      updateState();
    }
    changed.run();
  }

  /** The state that counts: a connector that says that it runs may have problems nevertheless. */
  private void updateState() {
    ConnectorState now =
        said == ConnectorState.CONNECTOR_STATE_RUNNING && !problems.isEmpty()
            ? ConnectorState.CONNECTOR_STATE_DEGRADED
            : said;
    if (now != state) {
      state = now;
      stateSince = System.nanoTime();
    }
  }

  private String reason() {
    if (!saidReason.isEmpty() || problems.isEmpty()) {
      return saidReason;
    }
    return problems.values().iterator().next();
  }

  private static long millis(long nanos) {
    return Duration.ofNanos(nanos).toMillis();
  }

  /** At most as many bytes as a text may have. */
  private static String cut(String text) {
    String cut = text;
    while (cut.getBytes(StandardCharsets.UTF_8).length > MAX_BYTES) {
      cut = cut.substring(0, cut.length() * 9 / 10);
    }
    return cut;
  }
}
