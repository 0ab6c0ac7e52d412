package io.headrace.kafkaconnect.sink;

import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.sink.SinkRecord;

/**
 * A row as a task gets it.
 *
 * @param partition its partition, before a transform changes its topic
 * @param offset its offset
 * @param record the record; empty if a transform has dropped it
 */
record Row(TopicPartition partition, long offset, Optional<SinkRecord> record) {}
