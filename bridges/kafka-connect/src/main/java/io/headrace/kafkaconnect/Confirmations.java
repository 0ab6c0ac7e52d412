package io.headrace.kafkaconnect;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.source.SourceRecord;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Tells tasks of what is in the checkpoint, on a thread of its own: a system may answer slowly. */
final class Confirmations implements Runnable, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Confirmations.class);
  private static final long WAIT_MILLIS = 1000;

  private final RecordLog log;
  private final Thread thread = new Thread(this, "confirmations");
  private volatile boolean stopping;

  Confirmations(RecordLog log) {
    this.log = log;
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  @Override
  public void run() {
    try {
      while (!stopping) {
        confirm(log.takeConfirmed(WAIT_MILLIS));
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  private static void confirm(List<Entry> entries) {
    Map<TaskRunner, List<SourceRecord>> byTask = new LinkedHashMap<>();
    for (Entry entry : entries) {
      byTask
          .computeIfAbsent((TaskRunner) entry.task(), task -> new ArrayList<>())
          .add(entry.record());
    }
    byTask.forEach(
        (task, records) -> {
          try {
            task.confirm(records);
          } catch (Throwable error) { // whatever it is, others must be told
            LOG.warn("{}: records that it was told of: {}", task.name(), records.size(), error);
          }
        });
  }

  @Override
  public void close() throws InterruptedException {
    stopping = true;
    thread.interrupt();
    thread.join(WAIT_MILLIS);
  }
}
