package headrace.engine;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Semaphore;
import org.apache.hadoop.conf.Configuration;
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

  private final FileSystems files = new FileSystems();
  private final String socket;
  private final ServerSocketChannel listening;
  private final Semaphore free = new Semaphore(MAX_CONNECTIONS);

  FileService() throws IOException {
    super("headrace-files");
    setDaemon(true);
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
    files.use(latest);
  }

  @Override
  public void run() {
    while (true) {
      try {
        SocketChannel channel = listening.accept();
        if (free.tryAcquire()) {
          new FileConnection(files, channel, free::release).start();
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

  private static void pause() {
    try {
      Thread.sleep(100);
    } catch (InterruptedException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
