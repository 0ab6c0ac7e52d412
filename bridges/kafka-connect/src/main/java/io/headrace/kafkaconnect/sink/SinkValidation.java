package io.headrace.kafkaconnect.sink;

import io.headrace.kafkaconnect.Declaration;
import java.util.List;

/** What the connector of a sink says of its properties. */
public final class SinkValidation {
  private SinkValidation() {}

  /**
   * Validates everything as a run would, and returns a line about it.
   *
   * @throws org.apache.kafka.common.config.ConfigException if something is invalid
   */
  public static String checked(SinkOptions options) throws Exception {
    Declaration declaration = new Declaration(options.file(), options.plugins());
    int properties = declaration.requireValid();
    new Intake(options.file(), options.plugins()).close();
    return "%s: all properties are valid (%d), written at least once"
        .formatted(declaration.name(), properties);
  }

  /** The properties of a connector, a line for each. */
  public static List<String> described(SinkOptions options) throws Exception {
    return new Declaration(options.file(), options.plugins()).described("a sink, at least once");
  }
}
