package headrace.engine;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Writes a checkpoint by the manager that the user has chosen, which a setting names, and does for
 * its logs what {@link CommitLogs} says: entries name their run, and only the current run writes
 * them.
 */
public final class NamedCheckpoints implements CheckpointFileManager {
  /** The setting of the user's manager. */
  public static final String CHOSEN = "spark.sql.headrace.checkpointFileManagerClass";

  private final CheckpointFileManager chosen;
  private final Configuration configuration;

  public NamedCheckpoints(Path path, Configuration configuration)
      throws ReflectiveOperationException {
    this.configuration = configuration;
    this.chosen =
        Class.forName(
                configuration.get(CHOSEN), true, Thread.currentThread().getContextClassLoader())
            .asSubclass(CheckpointFileManager.class)
            .getConstructor(Path.class, Configuration.class)
            .newInstance(path, configuration);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrites) {
    Checked checked = new Checked(chosen.createAtomic(path, overwrites), path, configuration);
    return CommitLogs.named(path, checked);
  }

  @Override
  public FSDataInputStream open(Path path) {
    return chosen.open(path);
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return chosen.list(path, filter);
  }

  @Override
  public void mkdirs(Path path) {
    chosen.mkdirs(path);
  }

  @Override
  public boolean exists(Path path) {
    return chosen.exists(path);
  }

  @Override
  public void delete(Path path) {
    chosen.delete(path);
  }

  @Override
  public boolean isLocal() {
    return chosen.isLocal();
  }

  @Override
  public Path createCheckpointDirectory() {
    return chosen.createCheckpointDirectory();
  }

  @Override
  public void close() {
    chosen.close();
  }

  /** A file that only the current run completes. */
  private static final class Checked extends CancellableFSDataOutputStream {
    private final CancellableFSDataOutputStream file;
    private final Path path;
    private final Configuration configuration;

    Checked(FSDataOutputStream file, Path path, Configuration configuration) {
      super(file);
      this.file = (CancellableFSDataOutputStream) file;
      this.path = path;
      this.configuration = configuration;
    }

    @Override
    public void close() throws IOException {
      CommitLogs.check(path, configuration);
      file.close();
      CommitLogs.written(path);
    }

    @Override
    public void cancel() {
      file.cancel();
    }
  }
}
