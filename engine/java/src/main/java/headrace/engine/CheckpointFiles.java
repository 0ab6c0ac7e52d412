package headrace.engine;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkFiles;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Reads and writes files of a checkpoint for the Python processes of this JVM, which have no client
 * for Hadoop's file systems: each JVM has one {@link FileService}, and announces its socket in a
 * file.
 */
public final class CheckpointFiles {
  private static final String ANNOUNCEMENT = "headrace-files";

  private static FileService service = null;
  private static String announcedIn = null;

  /** In the driver: the path of its JVM's socket. Starts the service if it does not run. */
  public static String serve() throws IOException {
    return serve(SparkContext.getOrCreate().hadoopConfiguration());
  }

  /**
   * In a task: the same for its JVM, with the driver's configuration, as only the driver may have
   * the keys of a store.
   */
  public static String serve(Broadcast<SerializableConfiguration> configuration)
      throws IOException {
    return serve(configuration.value().value());
  }

  private static synchronized String serve(Configuration configuration) throws IOException {
    if (service == null) {
      FileService started = new FileService();
      started.start();
      service = started;
    }
    // In the driver, each SparkContext has a folder of its own; in an executor, it is the working
    // folder.
    String folder = SparkFiles.getRootDirectory();
    if (!folder.equals(announcedIn)) {
      service.use(configuration);
      announce(Path.of(folder).toAbsolutePath(), service.socket());
      announcedIn = folder;
    }
    return service.socket();
  }

  private static void announce(Path folder, String socket) throws IOException {
    Path written = Files.createTempFile(folder, ANNOUNCEMENT, "");
    Files.write(written, socket.getBytes(UTF_8));
    Path announcement = folder.resolve(ANNOUNCEMENT);
    Files.move(written, announcement, StandardCopyOption.ATOMIC_MOVE);
    announcement.toFile().deleteOnExit();
  }

  private CheckpointFiles() {}
}
