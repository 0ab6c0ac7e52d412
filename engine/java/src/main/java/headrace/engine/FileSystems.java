package headrace.engine;

import java.io.IOException;
import java.security.PrivilegedExceptionAction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.UserGroupInformation;

/** The file systems of paths, as the user who runs this JVM opens them. */
final class FileSystems {
  private final UserGroupInformation user;
  private volatile Configuration configuration;

  FileSystems() throws IOException {
    // On YARN, tasks run as the user of the application, which threads of later versions of Java
    // do not inherit.
    this.user = UserGroupInformation.getCurrentUser();
  }

  /** Opens file systems with a configuration from now on. */
  void use(Configuration latest) {
    this.configuration = latest;
  }

  /** The file system of a path. */
  FileSystem of(Path path) throws IOException, InterruptedException {
    PrivilegedExceptionAction<FileSystem> opening = () -> path.getFileSystem(configuration);
    return user.doAs(opening);
  }
}
