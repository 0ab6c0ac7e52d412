package io.headrace.sdk.internal.log;

import java.util.LinkedHashMap;
import java.util.Map;

/** The fields that all lines have which the threads of a connector log. */
public final class LogContext {
  /** Threads inherit it from the connector's, which makes them. */
  private static final InheritableThreadLocal<LogContext> CURRENT = new InheritableThreadLocal<>();

  private final Map<String, String> ofConnector;
  private volatile String session = "";

  private LogContext(Map<String, String> ofConnector) {
    this.ofConnector = ofConnector;
  }

  /** This thread, and the threads that it makes from now on, log with these fields. */
  public static void enter(Map<String, String> ofConnector) {
    CURRENT.set(new LogContext(Map.copyOf(ofConnector)));
  }

  /** The connector of this thread has a session from now on; empty for none. */
  public static void session(String session) {
    LogContext context = CURRENT.get();
    if (context != null) {
      context.session = session;
    }
  }

  /** The fields of a line that this thread logs now. */
  static Map<String, String> fields() {
    Map<String, String> fields = new LinkedHashMap<>();
    LogContext context = CURRENT.get();
    if (context != null) {
      if (!context.session.isEmpty()) {
        fields.put("session", context.session);
      }
      fields.putAll(context.ofConnector);
    }
    return fields;
  }
}
