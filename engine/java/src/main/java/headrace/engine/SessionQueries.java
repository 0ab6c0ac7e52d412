package headrace.engine;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.PythonStreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/**
 * Lets the driver's Python process monitor the queries of sessions that it has not created, which
 * belong to clients of Spark Connect.
 *
 * <p>Spark creates one for each session if `spark.sql.streaming.streamingQueryListeners` names the
 * class.
 */
public final class SessionQueries extends StreamingQueryListener {
  private static volatile Monitors monitors;

  /** The monitor of this session's queries; null before its first query. */
  private transient volatile PythonStreamingQueryListener monitor;

  /** Creates the monitor of a session. */
  public interface Monitors {
    PythonStreamingQueryListener of(SparkSession session);
  }

  /** From now on, queries of all sessions are monitored. */
  public static void monitor(Monitors byPython) {
    monitors = byPython;
  }

  @Override
  public void onQueryStarted(QueryStartedEvent event) {
    PythonStreamingQueryListener own = ofThisSession();
    if (own != null) {
      own.onQueryStarted(event);
    }
  }

  /** Spark calls this in the thread of a query, in whose session it runs; two may start at once. */
  private synchronized PythonStreamingQueryListener ofThisSession() {
    if (monitor == null && monitors != null) {
      monitor = monitors.of(SparkSession.active());
    }
    return monitor;
  }

  @Override
  public void onQueryProgress(QueryProgressEvent event) {
    if (monitor != null) {
      monitor.onQueryProgress(event);
    }
  }

  @Override
  public void onQueryIdle(QueryIdleEvent event) {
    // Nothing to report.
  }

  @Override
  public void onQueryTerminated(QueryTerminatedEvent event) {
    if (monitor != null) {
      monitor.onQueryTerminated(event);
    }
  }
}
