package io.headrace.examples;

import io.headrace.sdk.Connector;
import io.headrace.sdk.Position;
import io.headrace.sdk.source.Batch;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.Progress;
import io.headrace.sdk.source.ReplayableSource;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** Streams the lines of a file that grows. The sequence of a line is the offset of its end. */
public final class Lines implements ReplayableSource {
  private final Path path;
  private final Progress atEnd;

  Lines(Path path, Progress atEnd) {
    this.path = path;
    this.atEnd = atEnd;
  }

  @Override
  public String name() {
    return "lines";
  }

  @Override
  public PartitionReader open(String partition, Optional<Position> position) throws IOException {
    long offset = position.map(Position::sequence).orElse(0L);
    InputStream file = Files.newInputStream(path);
    file.skipNBytes(offset);
    return new Reader(new BufferedInputStream(file), offset);
  }

  /** Where a source ends the connection that it holds. */
  @Override
  public void close() {
    System.err.println("the source is closed");
  }

  private final class Reader implements PartitionReader {
    private final InputStream file;
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();
    private long offset;

    Reader(InputStream file, long offset) {
      this.file = file;
      this.offset = offset;
    }

    @Override
    public Progress read(Batch batch) throws IOException {
      for (int next; (next = file.read()) >= 0; ) {
        offset++;
        if (next == '\n') {
          batch.add(offset, line.toByteArray());
          line.reset();
          return Progress.MORE;
        }
        line.write(next);
      }
      return atEnd;
    }

    @Override
    public void close() throws IOException {
      file.close();
    }
  }

  public static void main(String[] arguments) {
    boolean once = arguments.length > 1 && arguments[1].equals("--once");
    Lines lines = new Lines(Path.of(arguments[0]), once ? Progress.END : Progress.IDLE);
    System.exit(Connector.run(lines));
  }
}
