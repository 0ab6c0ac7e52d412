package io.headrace.sdk.source;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.headrace.sdk.Position;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;

/** A source for tests: numbers from 1 to a last one, and what happened to its readers. */
public final class Numbers implements ReplayableSource {
  /** The acknowledged sequences, by any reader. */
  public final BlockingQueue<Long> acknowledged = new LinkedBlockingQueue<>();

  /** The positions at which readers were opened. */
  public final BlockingQueue<Optional<Position>> opened = new LinkedBlockingQueue<>();

  /** How many readers are open. */
  public final AtomicInteger open = new AtomicInteger();

  private final List<String> partitions;
  private final long last;
  private final Progress end;

  /** Numbers up to a last one, after which a reader returns `end`. */
  public Numbers(long last, Progress end, String... partitions) {
    this.last = last;
    this.end = end;
    this.partitions = List.of(partitions);
  }

  @Override
  public String name() {
    return "numbers";
  }

  @Override
  public List<String> partitions() {
    return partitions;
  }

  @Override
  public PartitionReader open(String partition, Optional<Position> position) {
    opened.add(position);
    open.incrementAndGet();
    return new PartitionReader() {
      private long next = position.map(Position::sequence).orElse(0L) + 1;

      @Override
      public Progress read(Batch batch) {
        if (next > last) {
          return end;
        }
        batch.add(next, ("number " + next).getBytes(UTF_8));
        next++;
        return Progress.MORE;
      }

      @Override
      public void acknowledged(Position position) {
        acknowledged.add(position.sequence());
      }

      @Override
      public void close() {
        open.decrementAndGet();
      }
    };
  }
}
