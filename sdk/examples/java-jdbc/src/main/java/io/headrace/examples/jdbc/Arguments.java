package io.headrace.examples.jdbc;

import io.headrace.sdk.InvalidConnectorException;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** The options of a command line, {@code --name value} or {@code --flag}. */
final class Arguments {
  private final Map<String, String> values = new LinkedHashMap<>();

  /**
   * Reads a command line.
   *
   * @throws InvalidConnectorException if an option is unknown, or has no value
   */
  Arguments(String[] words, Set<String> options, Set<String> flags) {
    for (int at = 0; at < words.length; at++) {
      String name = words[at].startsWith("--") ? words[at].substring(2) : "";
      if (flags.contains(name)) {
        values.put(name, "");
      } else if (!options.contains(name)) {
        throw new InvalidConnectorException(
            "%s is no option: want %s".formatted(words[at], String.join(", ", options)));
      } else if (at + 1 == words.length) {
        throw new InvalidConnectorException("--%s needs a value".formatted(name));
      } else {
        values.put(name, words[++at]);
      }
    }
  }

  boolean has(String flag) {
    return values.containsKey(flag);
  }

  Optional<String> get(String name) {
    return Optional.ofNullable(values.get(name));
  }

  String require(String name) {
    return get(name)
        .orElseThrow(() -> new InvalidConnectorException("--%s is missing".formatted(name)));
  }

  /** A list, separated by commas. */
  Optional<List<String>> list(String name) {
    return get(name).map(value -> List.of(value.split(",", -1)));
  }

  /** A time in seconds. */
  Duration seconds(String name, Duration otherwise) {
    Optional<String> value = get(name);
    if (value.isEmpty()) {
      return otherwise;
    }
    try {
      BigDecimal seconds = new BigDecimal(value.get());
      if (seconds.signum() >= 0) {
        return Duration.ofNanos(seconds.movePointRight(9).longValueExact());
      }
    } catch (ArithmeticException | NumberFormatException error) {
      // It is said below.
    }
    throw new InvalidConnectorException(
        "--%s %s: want seconds, such as 0.5".formatted(name, value.get()));
  }
}
