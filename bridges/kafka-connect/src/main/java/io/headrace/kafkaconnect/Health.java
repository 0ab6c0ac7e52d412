package io.headrace.kafkaconnect;

import io.headrace.sdk.Reporter;
import java.util.List;

/**
 * What the bridge says of its own state: the tasks say what they wait for, and looks at the system
 * say what is wrong there. Neither overwrites the other: a wait comes first, with the problems.
 * Methods may be called on any thread.
 */
final class Health {
  private final Secrets secrets;
  private Reporter reporter;
  private String wait = "";
  private String problems = "";
  private String told = "";

  Health(Secrets secrets) {
    this.secrets = secrets;
  }

  synchronized void reportTo(Reporter to) {
    reporter = to;
  }

  /** The tasks can do nothing for now; empty once they can. */
  synchronized void waits(String reason) {
    wait = secrets.masked(reason);
    tell();
  }

  /** What the last look at the system found; empty if all is well. */
  synchronized void problems(List<String> found) {
    problems = secrets.masked(String.join("; ", found));
    tell();
  }

  private void tell() {
    String separator = wait.isEmpty() || problems.isEmpty() ? "" : "; ";
    String text = wait + separator + problems;
    String state = (wait.isEmpty() ? "" : "waiting ") + text;
    if (reporter == null || state.equals(told)) {
      return;
    }
    told = state;
    if (!wait.isEmpty()) {
      reporter.waiting(text);
    } else if (!problems.isEmpty()) {
      reporter.degraded(text);
    } else {
      reporter.running();
    }
  }
}
