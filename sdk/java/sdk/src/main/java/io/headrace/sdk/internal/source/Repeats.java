package io.headrace.sdk.internal.source;

import io.headrace.sdk.internal.Reports;
import io.headrace.sdk.internal.log.Field;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.HashSet;
import java.util.Set;

/**
 * Names, in one session, the streams whose source ignores its position, and counts their messages.
 */
final class Repeats {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");
  private static final String IGNORES =
      "its reader ignores its position: it yields what was received before; begin after"
          + " position.sequence()";

  private final Reports reports;
  private final Set<Integer> named = new HashSet<>();
  private final Set<Integer> counted = new HashSet<>();

  Repeats(Reports reports) {
    this.reports = reports;
  }

  /** Looks at a stream of which something was sent. */
  void look(Stream stream) {
    if (stream.again() == 0) {
      return;
    }
    if (named.add(stream.id)) {
      LOG.log(Level.WARNING, "stream {0}: {1}", Field.stream(stream.name), IGNORES);
      reports.error(stream.name, IGNORES);
    }
    if (!stream.mayRepeat() && counted.add(stream.id)) {
      LOG.log(
          Level.WARNING,
          "stream {0}: messages sent again: {1}",
          Field.stream(stream.name),
          Long.toString(stream.again()));
    }
  }
}
