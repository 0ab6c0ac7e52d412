package io.headrace.kafkaconnect;

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * What {@code headrace bench bridge} compares the bridge with. {@code Baseline engine PRESET ROWS}
 * runs the connector of a preset in Debezium's own engine, into a consumer that only counts, and
 * prints how many rows have come, at most 20 times a second. {@code Baseline properties PRESET
 * FILE} writes the properties of the connector for a standalone worker of Connect. The parameters
 * are in {@code HEADRACE_PARAMETERS}, as for the bridge.
 */
public final class Baseline {
  private static final long BETWEEN_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

  private final long rows;
  private final CountDownLatch over = new CountDownLatch(1);
  private long count;
  private long printedAt = System.nanoTime();

  private Baseline(long rows) {
    this.rows = rows;
  }

  /**
   * Runs it.
   *
   * @param arguments what to do, the preset, and the number of rows or the file
   * @throws Exception if that fails
   */
  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    Parameters given = Parameters.of(System.getenv(Parameters.VARIABLE));
    properties.putAll(Preset.properties(arguments[1], given));
    properties.put("name", given.text("source"));
    if (arguments[0].equals("properties")) {
      write(properties, Path.of(arguments[2]));
      return;
    }
    new Baseline(Long.parseLong(arguments[2])).run(properties);
    System.exit(0); // whatever threads the engine has left
  }

  private static void write(Properties properties, Path file) throws IOException {
    properties.putAll(
        Map.of(
            "topic.creation.default.partitions", "1",
            "topic.creation.default.replication.factor", "1"));
    try (OutputStream out = Files.newOutputStream(file)) {
      properties.store(out, null);
    }
  }

  private void run(Properties properties) throws Exception {
    properties.put("converter.schemas.enable", "false");
    properties.put("offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore");
    properties.put("offset.flush.interval.ms", "1000");
    try (DebeziumEngine<ChangeEvent<String, String>> engine =
        DebeziumEngine.create(Json.class)
            .using(properties)
            .using(this::ended)
            .notifying(this::take)
            .build()) {
      Thread thread = new Thread(engine, "engine");
      thread.setDaemon(true);
      thread.start();
      over.await();
    }
  }

  private void ended(boolean success, String message, Throwable error) {
    if (!success) {
      System.err.println(message + ": " + error);
      System.exit(1);
    }
  }

  private void take(
      List<ChangeEvent<String, String>> events,
      DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer)
      throws InterruptedException {
    for (ChangeEvent<String, String> event : events) {
      if (!event.destination().startsWith("__debezium")) {
        count++;
      }
      committer.markProcessed(event);
    }
    committer.markBatchFinished();
    long now = System.nanoTime();
    if (count >= rows || (count > 0 && now - printedAt >= BETWEEN_NANOS)) {
      printedAt = now;
      System.out.println(count);
    }
    if (count >= rows) {
      over.countDown();
    }
  }
}
