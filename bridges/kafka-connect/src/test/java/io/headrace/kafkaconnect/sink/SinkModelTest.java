package io.headrace.kafkaconnect.sink;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.kafkaconnect.ConnectorFile;
import io.headrace.kafkaconnect.PluginPath;
import io.headrace.kafkaconnect.Secrets;
import io.headrace.sdk.Header;
import io.headrace.sdk.Message;
import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.TestRows;
import io.headrace.sdk.sink.Transaction;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * Batches of two pipelines go through the host to a task that fails, or dies with the bridge, at
 * any call. Nothing is acknowledged that is not durable, and everything arrives.
 */
final class SinkModelTest {
  private static final int RUNS = Integer.getInteger("seeds", 100);
  private static final int BATCHES = 4;
  private static final int FAULTS = 12;

  /** The seed of the first run: -Dseed=N repeats it. */
  private final long first = Long.getLong("seed", System.nanoTime());

  private Random random;
  private Ledger ledger;
  private SinkHost host;
  private long attempts;
  private final ManualClock clock = new ManualClock();

  @AfterEach
  void closeHost() {
    Ledger.current = null;
  }

  @Test
  void nothingIsAcknowledgedThatIsNotDurable() throws Exception {
    int acknowledged = 0;
    int faults = 0;
    for (long seed = first; seed < first + RUNS; seed++) {
      try {
        acknowledged += run(seed);
      } catch (Exception | AssertionError error) {
        String calls =
            ledger
                .calls
                .subList(Math.max(0, ledger.calls.size() - 20), ledger.calls.size())
                .toString();
        throw new AssertionError("-Dseed=%d, after %s".formatted(seed, calls), error);
      }
      faults += FAULTS - ledger.faultsLeft;
    }
    assertTrue(acknowledged >= RUNS * BATCHES, "parts were acknowledged");
    assertTrue(faults >= RUNS, "faults happened: " + faults);
  }

  private int run(long seed) throws Exception {
    random = new Random(seed);
    ledger = new Ledger(random, FAULTS);
    Ledger.current = ledger;
    attempts = 0;
    begin();
    int acknowledged = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
      List<Work> works = new ArrayList<>();
      for (int partition = 0; partition <= random.nextInt(3); partition++) {
        works.add(new Work(new Transaction("first", batch), partition));
      }
      works.add(new Work(new Transaction("second", batch), 0));
      acknowledged += deliver(works);
      if (random.nextInt(3) == 0) {
        acknowledged += deliver(works); // the driver dies before its commit, and runs it again
      }
    }
    return acknowledged;
  }

  /** A bridge starts, and has nothing but the system. */
  private void begin() {
    PluginPath plugins = PluginPath.of(List.of());
    Map<String, String> properties =
        Map.of(
            "connector.class", Ledger.Connector.class.getName(),
            "topics", "a,b",
            "tasks.max", "2",
            "value.converter", "org.apache.kafka.connect.storage.StringConverter",
            "key.converter", "org.apache.kafka.connect.storage.StringConverter");
    ConnectorFile file = ConnectorFile.of(properties, plugins);
    SinkOptions options =
        new SinkOptions(
            "ledger",
            plugins,
            file,
            Duration.ofSeconds(5),
            SinkOptions.badRecords(file, Secrets.NONE),
            Secrets.NONE);
    host = new SinkHost(options, clock);
  }

  /** The rows of one partition of a batch, the same in each attempt. */
  private final class Work {
    private final Transaction transaction;
    private final int partition;
    private final List<Message> rows = new ArrayList<>();
    private Part part;
    private int sent;
    private boolean done;

    Work(Transaction transaction, int partition) {
      this.transaction = transaction;
      this.partition = partition;
      int count = random.nextInt(12);
      for (int place = 0; place < count; place++) {
        String text =
            "%s %s %d %d"
                .formatted(random.nextInt(5) == 0 ? "bad" : "row", transaction, partition, place);
        String topic = random.nextInt(6) == 0 ? "unknown" : random.nextBoolean() ? "a" : "b";
        List<Header> headers = List.of(Header.text(Topics.HEADER, topic));
        rows.add(new Message(place, null, text.getBytes(UTF_8), null, null, headers));
      }
      restart();
    }

    void restart() {
      part = new Part(transaction, partition, "r1/" + ++attempts);
      sent = 0;
      done = false;
    }

    private String topic(Message row) {
      return new String(row.headers().get(0).value(), UTF_8);
    }

    private boolean isRefused(Message row) {
      return topic(row).equals("unknown") || row.valueAsString().startsWith("bad");
    }

    /** Sends a frame, or ends the part. */
    void step() throws Exception {
      if (sent < rows.size()) {
        int count = 1 + random.nextInt(rows.size() - sent);
        host.write(part, TestRows.of(rows.subList(sent, sent + count).toArray(Message[]::new)));
        sent += count;
        return;
      }
      List<Outcomes.Refused> refused = host.end(part, sent);
      List<Long> wanted = rows.stream().filter(this::isRefused).map(Message::sequence).toList();
      assertEquals(wanted, refused.stream().map(Outcomes.Refused::place).toList());
      for (Message row : rows) {
        if (!isRefused(row)) {
          long offset = Places.offset(part, row.sequence());
          String place = "%s %d %d".formatted(topic(row), new Places().partition(part), offset);
          assertEquals(row.valueAsString(), ledger.durable.get(place), "it is durable");
        }
      }
      done = true;
    }
  }

  /** Delivers parts, in frames that alternate, and again until each is acknowledged. */
  private int deliver(List<Work> works) {
    works.forEach(Work::restart);
    while (works.stream().anyMatch(work -> !work.done)) {
      List<Work> left = works.stream().filter(work -> !work.done).toList();
      Work work = left.get(random.nextInt(left.size()));
      try {
        work.step();
      } catch (Ledger.Killed killed) {
        begin();
        left.forEach(Work::restart);
      } catch (Exception error) {
        work.restart();
      }
      assertEquals(List.of(), ledger.violations);
      if (random.nextInt(30) == 0) {
        work.restart(); // Spark gives the attempt up, and tells nobody
      }
    }
    return works.size();
  }
}
