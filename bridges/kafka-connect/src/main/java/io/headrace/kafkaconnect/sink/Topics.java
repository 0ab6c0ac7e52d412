package io.headrace.kafkaconnect.sink;

import io.headrace.kafkaconnect.ConnectorFile;
import io.headrace.sdk.Header;
import io.headrace.sdk.Message;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.sink.SinkTask;

/** The topics of a sink connector, and the topic of a message. */
final class Topics {
  /** The header with the topic of a message, which the bridge writes in sources. */
  static final String HEADER = "connect.topic";

  private final List<String> names;
  private final Pattern pattern;

  private Topics(List<String> names, Pattern pattern) {
    this.names = names;
    this.pattern = pattern;
  }

  /**
   * The topics by the properties {@code topics} or {@code topics.regex}.
   *
   * @throws ConfigException if neither or both are given, or the pattern is invalid
   */
  static Topics of(ConnectorFile file) {
    List<String> names = file.list(SinkTask.TOPICS_CONFIG);
    String regex = file.get(SinkTask.TOPICS_REGEX_CONFIG, "").strip();
    if (names.isEmpty() == regex.isEmpty()) {
      throw new ConfigException(
          "topics: name the topic of messages that have no header %s, or give topics.regex; not both"
              .formatted(HEADER));
    }
    try {
      return new Topics(names, regex.isEmpty() ? null : Pattern.compile(regex));
    } catch (PatternSyntaxException error) {
      throw new ConfigException("topics.regex: " + error.getMessage());
    }
  }

  /**
   * The topic of a message.
   *
   * @throws IllegalArgumentException if it has none, or one that the connector does not want
   */
  String of(Message message) {
    for (Header header : message.headers()) {
      if (header.name().equals(HEADER) && header.value() != null) {
        return required(new String(header.value(), StandardCharsets.UTF_8));
      }
    }
    if (names.size() != 1) {
      throw new IllegalArgumentException(
          "a message without a header %s has no topic: name exactly one in topics"
              .formatted(HEADER));
    }
    return names.get(0);
  }

  private String required(String topic) {
    boolean wanted = pattern == null ? names.contains(topic) : pattern.matcher(topic).matches();
    if (!wanted) {
      throw new IllegalArgumentException(
          "the topic %s in the header %s is in neither topics nor topics.regex"
              .formatted(topic, HEADER));
    }
    return topic;
  }
}
