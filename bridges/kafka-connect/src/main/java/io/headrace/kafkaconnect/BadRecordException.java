package io.headrace.kafkaconnect;

import org.apache.kafka.connect.errors.ConnectException;

/** A record that a transform or a converter cannot handle. */
public final class BadRecordException extends ConnectException {
  private static final long serialVersionUID = 1;

  /**
   * A bad record.
   *
   * @param property the property of the transform or converter
   */
  public BadRecordException(String property, RuntimeException cause) {
    super(property + ": " + cause, cause);
  }
}
