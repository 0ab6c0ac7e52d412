package io.headrace.kafkaconnect;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.junit.jupiter.api.Test;

final class TaskRunnerTest {
  /** Returns a record when it is told, whoever interrupts it before. */
  private static final class Late extends SourceTask {
    final CountDownLatch polls = new CountDownLatch(1);
    final CountDownLatch returns = new CountDownLatch(1);
    final CountDownLatch stopped = new CountDownLatch(1);

    @Override
    public void start(Map<String, String> settings) {}

    @Override
    public List<SourceRecord> poll() {
      polls.countDown();
      while (returns.getCount() > 0) {
        try {
          returns.await();
        } catch (InterruptedException error) {
          // as libraries do that wait for a server
        }
      }
      return List.of(
          new SourceRecord(
              Map.of("table", "a"), Map.of("at", 1), "t", Schema.STRING_SCHEMA, "late"));
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

  @Test
  void whatATaskReturnsOnceItIsAbandonedIsLeftOut() throws Exception {
    PluginPath plugins = PluginPath.of(List.of());
    Map<String, String> properties =
        Map.of(
            "connector.class",
            HostTest.Counter.class.getName(),
            "value.converter",
            "org.apache.kafka.connect.storage.StringConverter");
    BadRecords bad = new BadRecords(BadRecords.Policy.FAIL, Optional.empty());
    Conversion conversion =
        new Conversion(ConnectorFile.of(properties, plugins), plugins, List.of(), bad);
    RecordLog log = new RecordLog(Replay.SAFE, 1 << 20, Long.MAX_VALUE / 2, () -> 0, () -> 1);
    log.reset(Optional.empty());
    Late task = new Late();
    ClassLoader loader = getClass().getClassLoader();
    TaskRunner runner =
        new TaskRunner(
            "late", task, Map.of(), loader, conversion, log, Repeats.none(), waits -> {});
    runner.start();
    task.polls.await();
    runner.stop();
    runner.join(1);
    task.returns.countDown();
    task.stopped.await();
    assertEquals(0, log.size());
  }
}
