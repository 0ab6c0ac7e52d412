package io.headrace.kafkaconnect;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Polls one task on a thread of its own, as Connect does, and appends its records to the log. */
final class TaskRunner implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(TaskRunner.class);
  private static final long RETRY_MILLIS = 1000;

  private final String name;
  private final SourceTask task;
  private final Map<String, String> settings;
  private final OffsetStorageReader offsets;
  private final Conversion conversion;
  private final RecordLog log;
  private final Repeats repeats;
  private final Consumer<String> waits;
  private final UnreadMetrics metrics = new UnreadMetrics();
  private final Thread thread;
  private volatile boolean stopping;
  private volatile boolean started;
  private volatile Throwable failure;

  /**
   * A task that is not started.
   *
   * @param name what it is called in logs and errors
   * @param loader the context class loader of its thread
   * @param repeats the records that it may return although they are in the log
   * @param waits takes why it does not get on for now; empty once it does
   */
  TaskRunner(
      String name,
      SourceTask task,
      Map<String, String> settings,
      ClassLoader loader,
      Conversion conversion,
      RecordLog log,
      Repeats repeats,
      Consumer<String> waits) {
    this.name = name;
    this.task = task;
    this.settings = settings;
    this.offsets = log.settled().reader();
    this.conversion = conversion;
    this.log = log;
    this.repeats = repeats;
    this.waits = waits;
    this.thread = new Thread(this, name);
    thread.setContextClassLoader(loader);
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  @Override
  public void run() {
    try {
      task.initialize(new Context());
      task.start(settings);
      started = true;
      waits.accept("");
      while (!stopping) {
        List<SourceRecord> records = polled();
        for (SourceRecord record : records == null ? List.<SourceRecord>of() : records) {
          append(record);
        }
      }
    } catch (Throwable error) { // whatever it is, the bridge must learn of it
      if (!stopping) {
        failure = error;
      }
    } finally {
      try {
        task.stop(); // on its own thread, as in Connect
      } catch (RuntimeException error) {
        LOG.warn("{}: stopping it", name, error);
      }
      conversion.close();
      metrics.close();
    }
  }

  private List<SourceRecord> polled() throws InterruptedException {
    try {
      List<SourceRecord> records = task.poll();
      waits.accept("");
      return records;
    } catch (RetriableException error) {
      waits.accept("%s polls again: %s".formatted(name, error.getMessage()));
      Thread.sleep(RETRY_MILLIS);
      return List.of();
    }
  }

  private void append(SourceRecord record) throws InterruptedException, IOException {
    if (stopping) {
      return; // the next task reads it
    }
    if (repeats.isNext(Offsets.key(record.sourcePartition()), record.sourceOffset())) {
      return;
    }
    Optional<Content> content = conversion.of(record);
    log.append(Entry.of(this, record, content), () -> stopping);
  }

  /** Why it has ended, if it was not stopped. */
  Optional<Throwable> failure() {
    return Optional.ofNullable(failure);
  }

  String name() {
    return name;
  }

  /** Tells the task of records that are in the checkpoint. */
  void confirm(List<SourceRecord> records) throws Exception {
    if (stopping || !started || failure != null) {
      return;
    }
    Plugin.within(
        thread.getContextClassLoader(),
        () -> {
          records.forEach(this::confirm);
          task.commit();
          return null;
        });
  }

  /** Tells the task of one record. It may fail at it, and must still learn of the others. */
  private void confirm(SourceRecord record) {
    try {
      task.commitRecord(record, null);
    } catch (Throwable error) { // whatever it is, as for commit()
      LOG.warn("{}: commitRecord() of {} failed", name, record.sourceOffset(), error);
    }
  }

  void stop() {
    stopping = true;
    log.taskStopped();
  }

  /** Waits until it has stopped; interrupts a poll, or a converter, that does not return. */
  void join(long millis) throws InterruptedException {
    thread.join(millis);
    if (thread.isAlive()) {
      LOG.warn("{}: it does not return, and is interrupted", name);
      thread.interrupt();
      thread.join(millis);
    }
    if (thread.isAlive()) {
      LOG.warn("{}: it does not return, and is abandoned", name);
    }
  }

  private final class Context implements SourceTaskContext {
    @Override
    public Map<String, String> configs() {
      return settings;
    }

    @Override
    public OffsetStorageReader offsetStorageReader() {
      return offsets;
    }

    @Override
    public PluginMetrics pluginMetrics() {
      return metrics;
    }
  }
}
