package headrace.engine;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.PrivilegedExceptionAction;
import java.util.concurrent.Semaphore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.security.UserGroupInformation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Accepts connections of Python processes on a Unix domain socket, as long as this JVM lives. The
 * socket is in a folder that only this user may enter.
 */
final class FileService extends Thread {
  private static final int MAX_CONNECTIONS = 512;
  private static final int MAX_SOCKET_PATH = 100;
  private static final Logger LOG = LoggerFactory.getLogger("headrace.engine");

  private final UserGroupInformation user;
  private final String socket;
  private final ServerSocketChannel listening;
  private final Semaphore free = new Semaphore(MAX_CONNECTIONS);
  private volatile Configuration configuration;

  FileService() throws IOException {
    super("headrace-files");
    setDaemon(true);
    // On YARN, tasks run as the user of the application, which threads of later versions of Java
    // do not inherit.
    this.user = UserGroupInformation.getCurrentUser();
    Path folder = Files.createTempDirectory("headrace");
    if (folder.toString().length() > MAX_SOCKET_PATH - 2) {
      Files.delete(folder);
      folder = Files.createTempDirectory(Path.of("/tmp"), "headrace");
    }
    Path path = folder.resolve("s");
    // The last one is deleted first.
    folder.toFile().deleteOnExit();
    path.toFile().deleteOnExit();
    this.socket = path.toString();
    this.listening = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    this.listening.bind(UnixDomainSocketAddress.of(path));
  }

  /** The path of its socket. */
  String socket() {
    return socket;
  }

  /** Opens file systems with a configuration from now on. */
  void use(Configuration latest) {
    this.configuration = latest;
  }

  @Override
  public void run() {
    while (true) {
      try {
        SocketChannel channel = listening.accept();
        if (free.tryAcquire()) {
          new FileConnection(this, channel).start();
        } else {
          LOG.warn("more than {} connections for files of checkpoints", MAX_CONNECTIONS);
          channel.close();
        }
      } catch (IOException failed) {
        LOG.warn("cannot accept a connection for files of checkpoints", failed);
        pause();
      }
    }
  }

  /** The file system of a path. */
  FileSystem fileSystem(org.apache.hadoop.fs.Path path) throws IOException, InterruptedException {
    PrivilegedExceptionAction<FileSystem> opening = () -> path.getFileSystem(configuration);
    return user.doAs(opening);
  }

  /** A connection has ended. */
  void release() {
    free.release();
  }

  private static void pause() {
    try {
      Thread.sleep(100);
    } catch (InterruptedException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
