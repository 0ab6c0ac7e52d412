package io.headrace.sdk.internal.sink;

import com.google.protobuf.UnsafeByteOperations;
import io.headrace.protocol.v1.Frame;
import io.headrace.sdk.internal.wire.Mutex;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** A temporary file for frames that do not fit into memory, made with the first one. */
final class FrameFile implements AutoCloseable {
  private final Mutex lock = new Mutex();
  private FileChannel file;
  private long end;
  private boolean closed;

  /** Where a frame is in the file. */
  record Place(long offset, int size) {}

  /** Appends a frame. */
  Place write(Frame frame) throws IOException {
    try (var ignored = lock.hold()) {
      if (closed) {
        return new Place(0, 0); // nobody reads it
      }
      if (file == null) {
        Path path = Files.createTempFile("headrace-", ".frames");
        file =
            FileChannel.open(
                path,
                StandardOpenOption.READ,
                StandardOpenOption.WRITE,
                StandardOpenOption.DELETE_ON_CLOSE);
      }
      ByteBuffer bytes = ByteBuffer.wrap(frame.toByteArray());
      Place place = new Place(end, bytes.remaining());
      while (bytes.hasRemaining()) {
        end += file.write(bytes, end);
      }
      return place;
    }
  }

  /** Reads a frame. */
  Frame read(Place place) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(place.size());
    try (var ignored = lock.hold()) {
      if (closed) {
        throw new IOException("the temporary file is closed");
      }
      while (bytes.hasRemaining()) {
        if (file.read(bytes, place.offset() + bytes.position()) < 0) {
          throw new EOFException("the temporary file has become shorter");
        }
      }
    }
    return Frame.parseFrom(UnsafeByteOperations.unsafeWrap(bytes.array()));
  }

  @Override
  public void close() {
    try (var ignored = lock.hold()) {
      closed = true;
      if (file != null) {
        file.close();
      }
    } catch (IOException error) {
      System.getLogger("io.headrace.sdk")
          .log(System.Logger.Level.DEBUG, "closing a temporary file", error);
    }
  }
}
