package io.headrace.kafkaconnect.sink;

import io.headrace.kafkaconnect.UnreadMetrics;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.IllegalWorkerStateException;
import org.apache.kafka.connect.sink.ErrantRecordReporter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTaskContext;

/** What a task asks of its worker. Its methods may be called on any thread. */
final class TaskContext implements SinkTaskContext, AutoCloseable {
  private static final long NOT_ASKED = -1;

  private final Map<String, String> settings;
  private final Refusals refusals;
  private final Set<TopicPartition> assigned = ConcurrentHashMap.newKeySet();
  private final Set<TopicPartition> paused = ConcurrentHashMap.newKeySet();
  private final AtomicLong timeoutMillis = new AtomicLong(NOT_ASKED);
  private final AtomicBoolean commitRequested = new AtomicBoolean();
  private final UnreadMetrics metrics = new UnreadMetrics();

  /** Takes records that a task refuses. */
  interface Refusals {
    /** Takes one, on any thread. */
    void refuse(SinkRecord record, Throwable error);
  }

  TaskContext(Map<String, String> settings, Refusals refusals) {
    this.settings = settings;
    this.refusals = refusals;
  }

  void assign(Collection<TopicPartition> partitions) {
    assigned.addAll(partitions);
  }

  void unassign(Collection<TopicPartition> partitions) {
    partitions.forEach(assigned::remove);
    partitions.forEach(paused::remove);
  }

  boolean isPaused(TopicPartition partition) {
    return paused.contains(partition);
  }

  /** How many nanoseconds the task asked to wait, once. */
  OptionalLong takeTimeout() {
    long millis = timeoutMillis.getAndSet(NOT_ASKED);
    return millis < 0
        ? OptionalLong.empty()
        : OptionalLong.of(TimeUnit.MILLISECONDS.toNanos(millis));
  }

  /** Whether the task asked for a commit, once. */
  boolean takeCommitRequest() {
    return commitRequested.getAndSet(false);
  }

  @Override
  public void close() {
    metrics.close();
  }

  @Override
  public Map<String, String> configs() {
    return settings;
  }

  @Override
  public void offset(Map<TopicPartition, Long> offsets) {
    if (!offsets.isEmpty()) {
      throw new ConnectException(
          "offset(): nothing can be read again from %s: Spark's checkpoint decides what is delivered; use a connector that"
                  .formatted(offsets)
              + " does not keep offsets in its system, or configure it to ignore them");
    }
  }

  @Override
  public void offset(TopicPartition partition, long offset) {
    offset(Map.of(partition, offset));
  }

  @Override
  public void timeout(long millis) {
    timeoutMillis.set(millis);
  }

  @Override
  public Set<TopicPartition> assignment() {
    return Set.copyOf(assigned);
  }

  @Override
  public void pause(TopicPartition... partitions) {
    paused.addAll(required(partitions));
  }

  @Override
  public void resume(TopicPartition... partitions) {
    required(partitions).forEach(paused::remove);
  }

  private List<TopicPartition> required(TopicPartition... partitions) {
    for (TopicPartition partition : partitions) {
      if (!assigned.contains(partition)) {
        throw new IllegalWorkerStateException(
            "the partition %s is not open in this task".formatted(partition));
      }
    }
    return List.of(partitions);
  }

  @Override
  public void requestCommit() {
    commitRequested.set(true);
  }

  @Override
  public ErrantRecordReporter errantRecordReporter() {
    return (record, error) -> {
      refusals.refuse(record, error);
      return CompletableFuture.completedFuture(null);
    };
  }

  @Override
  public PluginMetrics pluginMetrics() {
    return metrics;
  }
}
