package headrace.engine;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/**
 * The runs of this driver that write offset logs and commit logs.
 *
 * <p>An entry of a commit log names the run that wrote it, in a third line, which Spark does not
 * read: it alone decides whose transactions count. Just before an entry of either log appears, the
 * run checks in the run log of its checkpoint that no newer one has started.
 *
 * <p>Also tells the driver's Python process of a run's own entries in its commit log as soon as
 * they are written; Spark's own event follows later.
 */
public final class CommitLogs {
  private static final String COMMITS = "commits";
  private static final String OFFSETS = "offsets";
  private static final String RUNS = "headrace/runs";
  private static final Pattern ENTRY = Pattern.compile("[0-9]{1,18}");
  private static final Pattern RUN = Pattern.compile("([0-9]{1,18})\\.(?:[0-9]+\\.)?(.+)");

  /** The runs of each checkpoint, by their ids. */
  private static final Map<Path, Map<String, Run>> RUNNING = new ConcurrentHashMap<>();

  // Meanwhile, the query's thread continues with its next micro-batch.
  private static final ExecutorService CALLS =
      Executors.newSingleThreadExecutor(CommitLogs::daemon);

  /** Is called with the number of each micro-batch that a run has committed. */
  public interface Listener {
    void committed(long batch);
  }

  /** A run of a query, with its number and id in its checkpoint's run log. */
  private record Run(long number, String id, Listener listener) {
    boolean isReplacedBy(long otherNumber, String otherId) {
      return otherNumber > number || (otherNumber == number && otherId.compareTo(id) > 0);
    }
  }

  /**
   * A run begins on a checkpoint, given by its URL. The listener may be null. Call it before the
   * run's first micro-batch.
   */
  public static void begin(String checkpoint, String id, long number, Listener listener) {
    RUNNING
        .computeIfAbsent(new Path(checkpoint), any -> new ConcurrentHashMap<>())
        .put(id, new Run(number, id, listener));
  }

  /** A run has ended. */
  public static void end(String checkpoint, String id) {
    RUNNING.computeIfPresent(
        new Path(checkpoint),
        (any, runs) -> {
          runs.remove(id);
          return runs.isEmpty() ? null : runs;
        });
  }

  /**
   * Wraps the stream of a new file: an entry of a commit log gets its third line when Spark has
   * written the others.
   */
  static CancellableFSDataOutputStream named(Path path, CancellableFSDataOutputStream stream) {
    Run run = isEntry(path, COMMITS) ? writerOf(path) : null;
    return run == null ? stream : new NamedEntry(stream, run.id());
  }

  /**
   * Checks that the run that writes an entry is the current one of its checkpoint. Other files
   * pass.
   *
   * @throws IllegalStateException if another run has taken over
   */
  static void check(Path path, Configuration configuration) throws IOException {
    Run run = isEntry(path, COMMITS) || isEntry(path, OFFSETS) ? writerOf(path) : null;
    if (run == null) {
      return;
    }
    Path folder = new Path(path.getParent().getParent(), RUNS);
    FileSystem files = folder.getFileSystem(configuration);
    for (FileStatus status : files.listStatus(folder)) {
      Matcher other = RUN.matcher(status.getPath().getName());
      if (other.matches() && run.isReplacedBy(Long.parseLong(other.group(1)), other.group(2))) {
        throw new IllegalStateException(
            String.format(
                "another driver has started this query on the same checkpoint, as run %s (%s); run"
                    + " %d (%s) ends and does not write %s. A checkpoint serves one query at a"
                    + " time: stop one of the drivers",
                other.group(1), other.group(2), run.number(), run.id(), path));
      }
    }
  }

  /** A file of a checkpoint is complete. */
  static void written(Path path) {
    Run run = isEntry(path, COMMITS) ? writerOf(path) : null;
    if (run != null && run.listener() != null) {
      long batch = Long.parseLong(path.getName());
      CALLS.execute(() -> tell(run.listener(), batch));
    }
  }

  private static boolean isEntry(Path path, String log) {
    Path folder = path.getParent();
    return folder != null
        && folder.getName().equals(log)
        && ENTRY.matcher(path.getName()).matches();
  }

  /** The run of the calling thread's query; null if it has not begun here. */
  private static Run writerOf(Path path) {
    Map<String, Run> runs = RUNNING.get(path.getParent().getParent());
    if (runs == null) {
      return null;
    }
    // Spark's threads of a query have the run's id as their job group; code of a user may change
    // it.
    String group = SparkContext.getOrCreate().getLocalProperty("spark.jobGroup.id");
    Run named = group == null ? null : runs.get(group);
    return named != null || runs.size() != 1 ? named : runs.values().iterator().next();
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

  /** An entry of a commit log that ends with the run that writes it. */
  private static final class NamedEntry extends CancellableFSDataOutputStream {
    private final CancellableFSDataOutputStream entry;
    private final String run;
    private boolean isOver;

    NamedEntry(FSDataOutputStream entry, String run) {
      super(entry);
      this.entry = (CancellableFSDataOutputStream) entry;
      this.run = run;
    }

    @Override
    public void close() throws IOException {
      if (isOver) {
        return;
      }
      isOver = true;
      entry.write(("\n{\"headraceRun\":\"" + run + "\"}").getBytes(UTF_8));
      entry.close();
    }

    @Override
    public void cancel() {
      if (isOver) {
        entry.cancel();
        return;
      }
      isOver = true;
      entry.cancel();
    }
  }
}
