package io.headrace.sdk.internal;

import io.headrace.sdk.InvalidConnectorException;
import java.util.regex.Pattern;

/** The names that the protocol allows. */
public final class Names {
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]+");
  private static final int MAX_LENGTH = 255;

  private Names() {}

  /**
   * The name of a partition's stream.
   *
   * @throws InvalidConnectorException if it is not allowed
   */
  public static String stream(String source, String partition) {
    check("the source name", source);
    check("source " + source + ": the partition name", partition);
    String name = source + "/" + partition;
    if (name.length() > MAX_LENGTH) {
      throw new InvalidConnectorException(
          "stream name %s has %d bytes: want at most %d"
              .formatted(name, name.length(), MAX_LENGTH));
    }
    return name;
  }

  /**
   * Checks a name.
   *
   * @throws InvalidConnectorException if it is not allowed
   */
  public static void check(String what, String name) {
    if (name == null || !NAME.matcher(name).matches() || name.length() > MAX_LENGTH) {
      throw new InvalidConnectorException(
          "%s %s: want 1 to %d letters, digits and ._-"
              .formatted(what, name == null ? "is null" : "\"" + name + "\"", MAX_LENGTH));
    }
  }
}
