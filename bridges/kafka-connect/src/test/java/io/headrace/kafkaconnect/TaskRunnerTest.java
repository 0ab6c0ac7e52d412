package io.headrace.kafkaconnect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.storage.StringConverter;
import org.junit.jupiter.api.Test;

final class TaskRunnerTest {
  private static final int DEADLINE = 60;

  /** Returns only when it is told, whoever interrupts it before, as libraries do for a server. */
  private static final class Gate {
    final CountDownLatch reached = new CountDownLatch(1);
    final CountDownLatch open = new CountDownLatch(1);

    void pass() {
      reached.countDown();
      while (open.getCount() > 0) {
        try {
          open.await();
        } catch (InterruptedException error) {
          // It waits for the server.
        }
      }
    }
  }

  /** Returns one record after the other. */
  private static final class Late extends SourceTask {
    final Gate gate = new Gate();
    final CountDownLatch stopped = new CountDownLatch(1);
    final List<Object> told = new CopyOnWriteArrayList<>();
    private final Map<String, Integer> offset = Map.of("at", 1);

    @Override
    public void start(Map<String, String> settings) {}

    @Override
    public List<SourceRecord> poll() {
      gate.pass();
      return List.of(
          new SourceRecord(Map.of("table", "a"), offset, "t", Schema.STRING_SCHEMA, "late"));
    }

    @Override
    public void commitRecord(SourceRecord record, RecordMetadata metadata) {
      told.add(record.value());
      if (record.value().equals("record 0")) {
        throw new NoClassDefFoundError("com/example/Absent");
      }
    }

    @Override
    public void commit() {
      told.add("commit");
      throw new NoClassDefFoundError("com/example/Absent");
    }

    @Override
    public void stop() {
      stopped.countDown();
    }

    @Override
    public String version() {
      return "7";
    }
  }

  /** Asks a registry that answers late. */
  public static final class LateConverter extends StringConverter {
    static volatile Gate gate;

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
      gate.pass();
      return super.fromConnectData(topic, schema, value);
    }
  }

  private final Late task = new Late();
  private Replay replay = Replay.SAFE;
  private RecordLog log;

  private TaskRunner started(Class<?> converter, long limit) {
    PluginPath plugins = PluginPath.of(List.of());
    Map<String, String> properties =
        Map.of(
            "connector.class", HostTest.Counter.class.getName(),
            "value.converter", converter.getName());
    BadRecords bad = new BadRecords(BadRecords.Policy.FAIL, Optional.empty(), Secrets.NONE);
    Conversion conversion =
        new Conversion(ConnectorFile.of(properties, plugins), plugins, List.of(), bad);
    log = new RecordLog(replay, limit, Long.MAX_VALUE / 2, () -> 0, () -> 1);
    log.reset(Optional.empty());
    ClassLoader loader = getClass().getClassLoader();
    TaskRunner runner =
        new TaskRunner(
            "late", task, Map.of(), loader, conversion, log, Repeats.none(), waits -> {});
    runner.start();
    return runner;
  }

  private void assertNothingComesAfter(TaskRunner runner, Gate gate) throws Exception {
    assertTrue(gate.reached.await(DEADLINE, TimeUnit.SECONDS));
    runner.stop();
    runner.join(1);
    gate.open.countDown();
    assertTrue(task.stopped.await(DEADLINE, TimeUnit.SECONDS));
    assertEquals(0, log.size());
  }

  @Test
  void whatATaskReturnsOnceItIsAbandonedIsLeftOut() throws Exception {
    assertNothingComesAfter(started(StringConverter.class, 1 << 20), task.gate);
  }

  @Test
  void whatAConverterReturnsOnceItsTaskIsAbandonedIsLeftOut() throws Exception {
    task.gate.open.countDown();
    LateConverter.gate = new Gate();
    assertNothingComesAfter(started(LateConverter.class, 1 << 20), LateConverter.gate);
  }

  @Test
  void aTaskThatFailsWhenItIsToldOfARecordLearnsOfTheOthers() throws Exception {
    replay = Replay.QUEUE;
    TaskRunner runner = started(StringConverter.class, 1 << 20);
    assertTrue(task.gate.reached.await(DEADLINE, TimeUnit.SECONDS));
    for (int at = 0; at < 3; at++) {
      SourceRecord record = Recorded.record("a", at, "record " + at);
      log.append(Entry.of(runner, record, Optional.empty()), () -> false);
    }
    try (Confirmations confirmations = new Confirmations(log)) {
      confirmations.start();
      until(() -> task.told.contains("commit"));
      assertEquals(List.of("record 0", "record 1", "record 2", "commit"), task.told);
      log.append(
          Entry.of(runner, Recorded.record("a", 3, "record 3"), Optional.empty()), () -> false);
      until(() -> task.told.contains("record 3"));
    }
    runner.stop();
    task.gate.open.countDown();
  }

  private static void until(BooleanSupplier holds) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE);
    while (!holds.getAsBoolean()) {
      assertTrue(System.nanoTime() < deadline);
      Thread.onSpinWait();
    }
  }

  @Test
  void aTaskThatWaitsForMemoryStopsAtOnce() throws Exception {
    task.gate.open.countDown();
    TaskRunner runner = started(StringConverter.class, 1);
    until(() -> log.size() > 0);
    runner.stop();
    assertTrue(task.stopped.await(DEADLINE, TimeUnit.SECONDS), "nobody interrupts it");
  }
}
