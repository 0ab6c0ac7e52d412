package headrace.engine;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads and writes files for one Python process, until it ends.
 *
 * <p>A request is an operation (1 reads, 2 writes; one byte), the length of the URL (4 bytes), an
 * offset and a length (8 bytes each), the URL, and then what is to be written. An answer is any
 * number of chunks of what is read, each after its size (4 bytes), and then 0, or a negative number
 * for what failed with the length of a text (4 bytes) and the text. Anything but a request ends the
 * connection.
 */
final class FileConnection extends Thread {
  private static final int READ = 1;
  private static final int WRITE = 2;
  private static final int ABSENT = -1;
  private static final int EXISTS = -2;
  private static final int SHORT = -3;
  private static final int FAILED = -4;
  private static final int MAX_NAME = 1 << 14;
  private static final long MAX_BYTES = 1L << 30;
  private static final int BUFFER = 1 << 16;
  private static final int CHUNK = 1 << 18;
  private static final Logger LOG = LoggerFactory.getLogger("headrace.engine");

  private final FileSystems files;
  private final SocketChannel channel;
  private final Runnable atEnd;
  private final DataInputStream in;
  private final DataOutputStream out;
  private final byte[] chunk = new byte[CHUNK];

  FileConnection(FileSystems files, SocketChannel channel, Runnable atEnd) {
    super("headrace-files-connection");
    setDaemon(true);
    this.files = files;
    this.channel = channel;
    this.atEnd = atEnd;
    this.in = new DataInputStream(new BufferedInputStream(Channels.newInputStream(channel)));
    this.out =
        new DataOutputStream(new BufferedOutputStream(Channels.newOutputStream(channel), BUFFER));
  }

  @Override
  public void run() {
    try (channel) {
      for (int operation = in.read(); operation >= 0; operation = in.read()) {
        answer(operation);
        out.flush();
      }
    } catch (IOException ended) {
      LOG.info("a connection for files of checkpoints has ended: {}", ended.toString());
    } finally {
      atEnd.run();
    }
  }

  private void answer(int operation) throws IOException {
    int size = in.readInt();
    long offset = in.readLong();
    long length = in.readLong();
    boolean isKnown = operation == READ || operation == WRITE;
    boolean isInRange = offset >= 0 && length >= 0 && length <= MAX_BYTES;
    if (!isKnown || !isInRange || size < 1 || size > MAX_NAME) {
      throw new IOException("not a request");
    }
    byte[] url = new byte[size];
    in.readFully(url);
    String name = new String(url, UTF_8);
    Throwable failure = operation == READ ? read(name, offset, length) : write(name, length);
    if (failure == null) {
      out.writeInt(0);
    } else {
      byte[] text = failure.toString().getBytes(UTF_8);
      out.writeInt(kind(failure, operation));
      out.writeInt(text.length);
      out.write(text);
    }
  }

  /** What failed, which may be that a class of the file system is missing; null if nothing did. */
  private Throwable read(String url, long offset, long length) {
    try {
      Path path = new Path(url);
      try (FSDataInputStream stream = files.of(path).open(path)) {
        stream.seek(offset);
        for (long left = length; left > 0; ) {
          int count = (int) Math.min(left, CHUNK);
          stream.readFully(chunk, 0, count);
          out.writeInt(count);
          out.write(chunk, 0, count);
          left -= count;
        }
      }
      return null;
    } catch (Throwable failed) {
      // If the client has gone, it cannot be told, which ends the connection.
      return failed;
    }
  }

  /** What failed, after all that the client sends has arrived; null if nothing did. */
  private Throwable write(String url, long length) throws IOException {
    CancellableFSDataOutputStream file = null;
    Throwable failure = null;
    boolean isWhole = false;
    try {
      try {
        Path path = new Path(url);
        file = create(files.of(path), path);
      } catch (Throwable failed) {
        failure = failed;
      }
      for (long left = length; left > 0; ) {
        int count = in.read(chunk, 0, (int) Math.min(left, CHUNK));
        if (count < 0) {
          throw new EOFException(url + " is cancelled: its writer has ended");
        }
        left -= count;
        if (failure == null) {
          try {
            file.write(chunk, 0, count);
          } catch (Throwable failed) {
            failure = failed;
          }
        }
      }
      if (failure == null) {
        try {
          file.close();
          isWhole = true;
        } catch (Throwable failed) {
          failure = failed;
        }
      }
    } finally {
      if (file != null && !isWhole) {
        file.cancel();
      }
    }
    return failure;
  }

  private static CancellableFSDataOutputStream create(FileSystem files, Path path)
      throws IOException {
    return QuickCheckpoints.isObjectStore(files, path)
        ? QuickCheckpoints.put(files, path, false)
        : new Direct(files, path);
  }

  private static int kind(Throwable failure, int operation) {
    if (failure instanceof FileNotFoundException) {
      return ABSENT;
    }
    if (failure instanceof FileAlreadyExistsException) {
      return EXISTS;
    }
    return failure instanceof EOFException && operation == READ ? SHORT : FAILED;
  }

  /** A file that is written under its own name, and deleted where it is cancelled. */
  private static final class Direct extends CancellableFSDataOutputStream {
    private final FileSystem files;
    private final Path path;

    Direct(FileSystem files, Path path) throws IOException {
      super(files.create(path, false));
      this.files = files;
      this.path = path;
    }

    @Override
    public void cancel() {
      try {
        close();
      } catch (IOException ignored) {
        // It is deleted anyway.
      }
      try {
        files.delete(path, false);
      } catch (IOException failed) {
        LOG.warn("cannot delete the incomplete file {}", path, failed);
      }
    }
  }
}
