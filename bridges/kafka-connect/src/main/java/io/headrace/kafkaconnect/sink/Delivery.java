package io.headrace.kafkaconnect.sink;

import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.Part;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;

/**
 * A part on its way into a task. A task may refuse records on any thread; everything else is called
 * by the thread that writes.
 */
final class Delivery {
  private final Part part;
  private final HostedTask task;
  private final Map<TopicPartition, Long> ends = new HashMap<>();
  private final TreeMap<Long, String> refused = new TreeMap<>();
  private long rows;

  Delivery(Part part, HostedTask task) {
    this.part = part;
    this.task = task;
  }

  Part part() {
    return part;
  }

  HostedTask task() {
    return task;
  }

  /** How many rows have come. */
  long rows() {
    return rows;
  }

  void came(long more) {
    rows += more;
  }

  /** The task is given a record of it. */
  void given(Row row) {
    ends.put(row.partition(), row.offset() + 1);
  }

  /** The offsets after its last records, which the task must have made durable. */
  Map<TopicPartition, Long> ends() {
    return ends;
  }

  synchronized void refuse(long place, String reason) {
    refused.putIfAbsent(place, reason);
  }

  /** What was refused of it, by place. */
  synchronized List<Outcomes.Refused> refused() {
    return refused.entrySet().stream()
        .map(one -> new Outcomes.Refused(one.getKey(), one.getValue()))
        .toList();
  }
}
