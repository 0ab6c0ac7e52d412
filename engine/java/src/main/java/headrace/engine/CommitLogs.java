package headrace.engine;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.hadoop.fs.Path;

/**
 * Tells the driver's Python process of entries in commit logs as soon as they are written; Spark's
 * own event follows later.
 */
public final class CommitLogs {
  private static final Map<Path, Listener> LISTENERS = new ConcurrentHashMap<>();
  // The query's thread goes on with its next micro-batch meanwhile.
  private static final ExecutorService CALLS =
      Executors.newSingleThreadExecutor(CommitLogs::daemon);

  /** Is called with the number of each micro-batch that is in the commit log. */
  public interface Listener {
    void committed(long batch);
  }

  /** Tells a listener of the commit log of a checkpoint, given by its URL. */
  public static void add(String checkpoint, Listener listener) {
    LISTENERS.put(new Path(checkpoint, "commits"), listener);
  }

  public static void remove(String checkpoint) {
    LISTENERS.remove(new Path(checkpoint, "commits"));
  }

  /** A file of a checkpoint is complete. */
  static void written(Path path) {
    Listener listener = LISTENERS.get(path.getParent());
    if (listener != null && path.getName().matches("[0-9]{1,18}")) {
      long batch = Long.parseLong(path.getName());
      CALLS.execute(() -> tell(listener, batch));
    }
  }

  private static void tell(Listener listener, long batch) {
    try {
      listener.committed(batch);
    } catch (RuntimeException ended) {
      // The Python process ends. It reads the commit log once more before that.
    }
  }

  private static Thread daemon(Runnable calls) {
    Thread thread = new Thread(calls, "headrace-commits");
    thread.setDaemon(true);
    return thread;
  }

  private CommitLogs() {}
}
