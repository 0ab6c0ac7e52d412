package io.headrace.kafkaconnect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.sdk.Position;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.connect.source.SourceRecord;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Bridge, gateway and query die at any time, in a model of all three, and nothing is lost. */
final class ReplayTest {
  private static final int RUNS = Integer.getInteger("seeds", 100);
  private static final long SECOND = 1_000_000_000L;

  @TestFactory
  Stream<DynamicTest> eachMessageArrivesOnceWhatIsReadAgainIsTheSame() {
    return seeds(seed -> new Run(seed, Replay.EXACT, 0).finish());
  }

  @TestFactory
  Stream<DynamicTest> eachMessageArrivesThoughWhatIsReadAgainDiffers() {
    return seeds(seed -> new Run(seed, Replay.SAFE, 0).finish());
  }

  @TestFactory
  Stream<DynamicTest> aSnapshotArrivesAtLeastOnceAndOnceItIsCoveredWhatFollowsOnce() {
    return seeds(seed -> new Run(seed, Replay.EXACT, 12).finish());
  }

  private interface Check {
    void run(long seed) throws Exception;
  }

  private static Stream<DynamicTest> seeds(Check check) {
    return IntStream.range(0, RUNS)
        .mapToObj(seed -> DynamicTest.dynamicTest("seed " + seed, () -> check.run(seed)));
  }

  private static final class Run {
    private final Random random;
    private final Replay replay;
    private final Pipeline pipeline;
    private final List<SourceRecord> snapshot = new ArrayList<>();
    private final List<SourceRecord> history = new ArrayList<>();
    private final HashSet<String> silent = new HashSet<>();
    private List<SourceRecord> ahead = List.of();
    private Repeats repeats;
    private long now;

    private int visible;
    private RecordLog log;
    private BridgeReader reader;

    Run(long seed, Replay replay, int rows) throws Exception {
      this.random = new Random(seed);
      this.replay = replay;
      this.pipeline = new Pipeline(random);
      for (int row = 0; row < rows; row++) {
        boolean last = row == rows - 1;
        Map<String, Object> offset = last ? Map.of("at", 0L) : Map.of("snapshot", true, "at", 0L);
        snapshot.add(Recorded.record("a", offset, "row " + row));
      }
      long at = 0;
      for (int number = 0; number < 60; number++) {
        at += random.nextInt(3) == 0 && at > 0 ? 0 : 1;
        String value = "change " + number;
        String table = rows > 0 || random.nextBoolean() ? "a" : "b";
        history.add(Recorded.record(table, at, value));
        if (random.nextInt(6) == 0) {
          silent.add(value);
        }
      }
      restart();
    }

    /** What a connector returns that resumes after offsets. */
    private List<SourceRecord> after(Offsets offsets) {
      Map<String, ?> first = offsets.get(Offsets.key(Map.of("table", "a")));
      List<SourceRecord> found = new ArrayList<>();
      if (!snapshot.isEmpty() && (first == null || first.containsKey("snapshot"))) {
        List<SourceRecord> rows = new ArrayList<>(snapshot.subList(0, snapshot.size() - 1));
        Collections.shuffle(rows, random);
        found.addAll(rows);
        found.add(snapshot.get(snapshot.size() - 1));
        found.addAll(history.subList(0, visible));
        return found;
      }
      for (SourceRecord record : history.subList(0, visible)) {
        Map<String, ?> offset = offsets.get(Offsets.key(record.sourcePartition()));
        if (offset == null || at(record.sourceOffset()) > at(offset)) {
          found.add(record);
        }
      }
      return replay == Replay.EXACT ? found : mixed(found);
    }

    private static long at(Map<String, ?> offset) {
      return (Long) offset.get("at");
    }

    /** The tables one after the other, in any way, each in its order. */
    private List<SourceRecord> mixed(List<SourceRecord> records) {
      Map<Object, List<SourceRecord>> tables = new HashMap<>();
      records.forEach(
          one ->
              tables.computeIfAbsent(one.sourcePartition(), table -> new ArrayList<>()).add(one));
      List<List<SourceRecord>> queues = new ArrayList<>(tables.values());
      List<SourceRecord> found = new ArrayList<>();
      while (!queues.isEmpty()) {
        List<SourceRecord> queue = queues.get(random.nextInt(queues.size()));
        found.add(queue.remove(0));
        queues.removeIf(List::isEmpty);
      }
      return found;
    }

    private void restart() throws Exception {
      log = new RecordLog(replay, Long.MAX_VALUE, 10 * SECOND, () -> now, random::nextLong);
      open();
    }

    private void open() throws Exception {
      Optional<Position> position = pipeline.received();
      if (!log.has(position)) {
        log.reset(position);
        startTasks();
      }
      long resumed = position.map(Position::sequence).orElse(0L);
      reader = new BridgeReader(() -> {}, log, null, resumed, false, 0);
      pipeline.committed().ifPresent(reader::acknowledged);
    }

    private void startTasks() {
      repeats = log.repeats();
      ahead = new ArrayList<>(after(log.settled()));
    }

    /** More happens in the system, all records of an offset at once. */
    private void happen(int most) {
      for (int count = 0; count < most && visible < history.size(); count++) {
        do {
          ahead.add(history.get(visible++));
        } while (visible < history.size() && isAlike(visible));
      }
    }

    private boolean isAlike(int at) {
      Map<String, ?> offset = history.get(at).sourceOffset();
      return history.get(at - 1).sourceOffset().equals(offset);
    }

    private void poll(int most) throws Exception {
      for (int count = 0; count < most && !ahead.isEmpty(); count++) {
        SourceRecord record = ahead.remove(0);
        if (repeats.isNext(Offsets.key(record.sourcePartition()), record.sourceOffset())) {
          continue;
        }
        boolean sent = !silent.contains(record.value());
        log.append(sent ? Recorded.entry(record) : Recorded.dropped(record), () -> false);
      }
    }

    private void step() throws Exception {
      switch (random.nextInt(12)) {
        case 0, 1 -> {
          happen(random.nextInt(3));
          poll(1 + random.nextInt(8));
        }
        case 2, 3, 4 -> reader.read(pipeline.batch());
        case 5, 6 -> pipeline.send();
        case 7 -> pipeline.plan();
        case 8 -> commit();
        case 9 -> now += ahead.isEmpty() && random.nextInt(3) == 0 ? 12 * SECOND : SECOND / 2;
        default -> fault();
      }
      confirm();
    }

    private void commit() {
      pipeline.commit().ifPresent(reader::acknowledged);
    }

    private void fault() throws Exception {
      switch (random.nextInt(12)) {
        case 0 -> {
          pipeline.lose(); // the bridge
          restart();
        }
        case 1 -> {
          pipeline.die(); // both
          restart();
        }
        case 2 -> {
          pipeline.die(); // the gateway
          open();
        }
        case 3 -> {
          pipeline.lose(); // the connection
          open();
        }
        case 4 -> startTasks(); // a task, or a new configuration
        default -> {
          // Nothing has died.
        }
      }
    }

    /** Nothing may be confirmed that a restart would need. */
    private void confirm() throws Exception {
      List<Entry> confirmed = log.takeConfirmed(0);
      if (confirmed.isEmpty()) {
        return;
      }
      Cursor cursor = Cursor.of(pipeline.committed().flatMap(Position::cursor));
      List<SourceRecord> needed = after(cursor.offsets());
      for (Entry entry : confirmed) {
        boolean again = snapshot.contains(entry.record()); // one begins again whatever is confirmed
        assertTrue(
            again || !needed.contains(entry.record()),
            () -> "confirmed too early: " + entry.record());
      }
    }

    void finish() throws Exception {
      for (int count = 0; count < 600; count++) {
        step();
      }
      happen(history.size());
      for (int count = 0; count < 5000 && !isDone(); count++) {
        poll(10);
        now += SECOND;
        for (int reads = 0; reads < 4; reads++) {
          reader.read(pipeline.batch());
          pipeline.send();
        }
        pipeline.plan();
        commit();
        confirm();
      }
      List<String> wanted =
          history.stream()
              .map(record -> record.value().toString())
              .filter(value -> !silent.contains(value))
              .toList();
      List<String> got =
          pipeline.values.stream().filter(value -> value.startsWith("change")).toList();
      if (replay == Replay.EXACT) {
        // A snapshot that is not covered yet begins again, with all that follows it.
        int begin = snapshot.isEmpty() ? 0 : got.lastIndexOf(wanted.get(0));
        List<String> rest = got.subList(Math.max(begin, 0), got.size());
        assertEquals(wanted, snapshot.isEmpty() ? rest : List.copyOf(new LinkedHashSet<>(rest)));
      }
      assertEquals(new HashSet<>(wanted), new LinkedHashSet<>(got));
      for (SourceRecord row : snapshot) {
        assertTrue(pipeline.values.contains(row.value()), () -> row.value() + " is lost");
      }
      Cursor cursor = Cursor.of(pipeline.committed().flatMap(Position::cursor));
      assertEquals(List.of(), after(cursor.offsets()), "an idle system is confirmed");
    }

    private boolean isDone() throws Exception {
      Cursor cursor = Cursor.of(pipeline.committed().flatMap(Position::cursor));
      return ahead.isEmpty() && log.size() == 0 && after(cursor.offsets()).isEmpty();
    }
  }
}
