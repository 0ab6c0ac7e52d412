package io.headrace.kafkaconnect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.sdk.Reporter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

final class HostTest {
  private static final long DEADLINE = Duration.ofSeconds(60).toNanos();

  private final AtomicLong now = new AtomicLong();
  private final List<String> reports = new CopyOnWriteArrayList<>();
  private long stopMillis = Host.STOP_MILLIS;
  private RecordLog log;
  private Host host;

  /** Counts, and fails at numbers that it is told. */
  public static final class Counter extends SourceConnector {
    static volatile Counter last;
    static volatile CountDownLatch stops = new CountDownLatch(0);
    volatile boolean absent;
    volatile String column = "";
    private Map<String, String> settings;

    void reconfigure() {
      context().requestTaskReconfiguration();
    }

    void raise() {
      context().raiseError(new IllegalStateException("the monitor fails"));
    }

    @Override
    public void start(Map<String, String> given) {
      settings = given;
      last = this;
    }

    @Override
    public Class<? extends Task> taskClass() {
      return CounterTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
      if (absent) {
        throw new IllegalStateException("the catalogue is absent");
      }
      List<Map<String, String>> configurations = new ArrayList<>();
      for (int task = 0; task < most; task++) {
        Map<String, String> one = new java.util.HashMap<>(settings);
        one.put("table", "t" + task);
        one.put("column", column);
        configurations.add(one);
      }
      return configurations;
    }

    @Override
    public void stop() {
      try {
        stops.await();
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
      }
    }

    @Override
    public ConfigDef config() {
      return new ConfigDef();
    }

    @Override
    public String version() {
      return "7";
    }
  }

  /** A task of it. */
  public static final class CounterTask extends SourceTask {
    static volatile long failAt;
    static volatile boolean invalid;
    static final AtomicInteger STARTS = new AtomicInteger();
    private String table;
    private long at;

    @Override
    public void start(Map<String, String> settings) {
      STARTS.incrementAndGet();
      table = settings.get("table");
      Map<String, Object> offset = context.offsetStorageReader().offset(Map.of("table", table));
      at = offset == null ? 0 : (Long) offset.get("at");
    }

    @Override
    public List<SourceRecord> poll() throws InterruptedException {
      if (at >= 30) {
        Thread.sleep(5);
        return null;
      }
      at++;
      if (at == failAt && invalid) {
        throw new ConfigException("table: there is none");
      }
      if (at == failAt) {
        failAt = 0;
        throw new IllegalStateException("the table is locked");
      }
      String value = table + " " + at;
      return List.of(
          new SourceRecord(
              Map.of("table", table), Map.of("at", at), "t", Schema.STRING_SCHEMA, value));
    }

    @Override
    public void stop() {}

    @Override
    public String version() {
      return "7";
    }
  }

  private void start(Replay replay, int tasks) throws Exception {
    Map<String, String> properties =
        Map.of(
            "connector.class", Counter.class.getName(),
            "tasks.max", String.valueOf(tasks),
            "value.converter", "org.apache.kafka.connect.storage.StringConverter");
    PluginPath plugins = PluginPath.of(List.of());
    Options options =
        new Options(
            "counted",
            plugins,
            ConnectorFile.of(properties, plugins),
            replay,
            1 << 20,
            Optional.empty(),
            Duration.ofSeconds(10),
            List.of(),
            false,
            new BadRecords(BadRecords.Policy.FAIL, Optional.empty(), Secrets.NONE),
            Secrets.NONE);
    AtomicLong runs = new AtomicLong();
    log = new RecordLog(replay, 1 << 20, Long.MAX_VALUE / 2, now::get, runs::incrementAndGet);
    host = new Host(options, log, now::get, stopMillis);
    host.health()
        .reportTo(
            new Reporter() {
              @Override
              public void connecting() {}

              @Override
              public void running() {
                reports.add("");
              }

              @Override
              public void degraded(String error) {}

              @Override
              public void waiting(String reason) {
                reports.add(reason);
              }
            });
    host.resume(Optional.empty());
  }

  @AfterEach
  void stop() throws Exception {
    CounterTask.failAt = 0;
    CounterTask.invalid = false;
    Counter.stops.countDown();
    if (host != null) {
      host.close();
    }
  }

  private void until(int messages) throws Exception {
    long deadline = System.nanoTime() + DEADLINE;
    while (log.size() < messages) {
      assertTrue(
          System.nanoTime() < deadline, () -> log.size() + " of " + messages + ": " + reports);
      host.attend();
      now.addAndGet(Duration.ofMillis(500).toNanos());
      Thread.sleep(1);
    }
  }

  private List<String> values() {
    return log.after(0, 1000).stream()
        .filter(entry -> !entry.isFiller())
        .map(entry -> new String(entry.content().get().value(), StandardCharsets.UTF_8))
        .toList();
  }

  @Test
  void aTaskThatFailsStartsAgainAfterWhatItHasRead() throws Exception {
    CounterTask.failAt = 20;
    start(Replay.EXACT, 1);
    until(30);
    assertEquals(30, values().stream().distinct().count());
    assertEquals(30, values().size());
    String reason = reports.stream().filter(text -> text.contains("failed")).findFirst().get();
    assertTrue(reason.contains("task 0 of counted"), reason);
    assertTrue(reason.contains("the table is locked"), reason);
    assertEquals("", reports.get(reports.size() - 1));
  }

  @Test
  void aTaskWhoseConfigurationIsInvalidEndsTheConnector() throws Exception {
    CounterTask.failAt = 20;
    CounterTask.invalid = true;
    start(Replay.EXACT, 1);
    ConfigException error = assertThrows(ConfigException.class, () -> until(30));
    assertEquals("table: there is none", error.getMessage());
  }

  @Test
  void newTasksContinueAfterWhatTheOldOnesHaveRead() throws Exception {
    start(Replay.SAFE, 2);
    until(10);
    Counter.last.column = "price";
    Counter.last.reconfigure();
    until(60);
    assertEquals(60, values().stream().distinct().count());
  }

  @Test
  void aConnectorThatAsksForTheSameTasksKeepsThem() throws Exception {
    CounterTask.STARTS.set(0);
    start(Replay.SAFE, 2);
    until(60);
    for (int times = 0; times < 10; times++) {
      Counter.last.reconfigure();
      host.attend();
    }
    host.close();
    assertEquals(2, CounterTask.STARTS.get());
  }

  @Test
  void aConnectorThatCannotConfigureItsTasksStartsAgain() throws Exception {
    start(Replay.EXACT, 1);
    until(10);
    Counter before = Counter.last;
    before.absent = true;
    before.reconfigure();
    untilAnotherOneRuns(before);
    until(30);
    assertEquals(30, values().stream().distinct().count());
    assertEquals(30, values().size());
    assertTrue(reports.stream().anyMatch(text -> text.contains("the catalogue is absent")));
  }

  @Test
  void aConnectorWhoseStopDoesNotReturnIsAbandonedAndHasNoSayInTheNextOne() throws Exception {
    stopMillis = 1;
    Counter.stops = new CountDownLatch(1);
    start(Replay.EXACT, 1);
    until(10);
    Counter before = Counter.last;
    before.raise();
    untilAnotherOneRuns(before);
    Counter next = Counter.last;
    before.raise();
    host.attend();
    until(30);
    assertSame(next, Counter.last);
  }

  private void untilAnotherOneRuns(Counter before) throws Exception {
    long deadline = System.nanoTime() + DEADLINE;
    while (Counter.last == before) {
      assertTrue(System.nanoTime() < deadline, () -> "it does not start again: " + reports);
      host.attend();
      now.addAndGet(Duration.ofMillis(500).toNanos());
      Thread.sleep(1);
    }
  }

  @Test
  void manyTasksCannotRepeatTheSame() {
    Exception error = assertThrows(ConfigException.class, () -> start(Replay.EXACT, 2));
    assertTrue(error.getMessage().contains("tasks.max"), error.getMessage());
  }
}
