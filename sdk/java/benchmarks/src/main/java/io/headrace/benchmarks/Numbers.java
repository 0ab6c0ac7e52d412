package io.headrace.benchmarks;

import io.headrace.sdk.Connector;
import io.headrace.sdk.Position;
import io.headrace.sdk.source.Batch;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.Progress;
import io.headrace.sdk.source.ReplayableSource;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;

/**
 * Sends messages of 61 bytes for {@code headrace bench sdks}: {@code Numbers COUNT [RATE]}. Without
 * a rate, it sends them as fast as they are accepted. It prints one JSON object with what it
 * measured.
 */
public final class Numbers implements ReplayableSource {
  private static final byte[] VALUE = "m".repeat(61).getBytes(StandardCharsets.US_ASCII);

  /** How many messages have their times kept. */
  private static final int KEPT = 8192;

  private final long count;
  private final double rate;
  private final long[] sent = new long[KEPT];
  private final double[] latencyMs = new double[KEPT];
  private volatile long began;

  Numbers(long count, double rate) {
    this.count = count;
    this.rate = rate;
  }

  @Override
  public String name() {
    return "numbers-java";
  }

  @Override
  public Duration idleWait() {
    return Duration.ofMillis(1);
  }

  @Override
  public PartitionReader open(String partition, Optional<Position> position) {
    began = System.nanoTime();
    return new Reader(position.map(Position::sequence).orElse(0L) + 1);
  }

  private final class Reader implements PartitionReader {
    private final long first;
    private long next;
    private long settled;

    Reader(long first) {
      this.first = first;
      this.next = first;
      this.settled = first - 1;
    }

    @Override
    public Progress read(Batch batch) {
      while (next <= count && !batch.isFull()) {
        if (rate > 0) {
          long now = System.nanoTime();
          if (now - began < (next - first) / rate * 1e9) {
            return Progress.IDLE;
          }
          sent[(int) (next % KEPT)] = now;
        }
        batch.add(next++, VALUE);
      }
      return next > count ? Progress.END : Progress.MORE;
    }

    @Override
    public void acknowledged(Position position) {
      for (long now = System.nanoTime(); rate > 0 && settled < position.sequence(); ) {
        int at = (int) (++settled % KEPT);
        latencyMs[at] = (now - sent[at]) / 1e6;
      }
    }
  }

  private String measured() {
    double seconds = (System.nanoTime() - began) / 1e9;
    String latency = "";
    if (rate > 0) {
      double[] sorted = Arrays.copyOf(latencyMs, (int) Math.min(count, KEPT));
      Arrays.sort(sorted);
      latency = String.format(Locale.ROOT, ", \"ack_p50_ms\": %f", sorted[sorted.length / 2]);
    }
    return String.format(
        Locale.ROOT, "{\"messages\": %d, \"seconds\": %f%s}", count, seconds, latency);
  }

  public static void main(String[] arguments) {
    double rate = arguments.length > 1 ? Double.parseDouble(arguments[1]) : 0;
    Numbers numbers = new Numbers(Long.parseLong(arguments[0]), rate);
    int code = Connector.run(numbers);
    System.out.println(numbers.measured());
    System.exit(code);
  }
}
