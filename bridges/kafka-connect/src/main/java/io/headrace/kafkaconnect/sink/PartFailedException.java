package io.headrace.kafkaconnect.sink;

import org.apache.kafka.connect.errors.ConnectException;

/** One part has failed, and the connector continues with others: Spark delivers it again. */
final class PartFailedException extends ConnectException {
  private static final long serialVersionUID = 1;

  PartFailedException(String message) {
    super(message);
  }
}
