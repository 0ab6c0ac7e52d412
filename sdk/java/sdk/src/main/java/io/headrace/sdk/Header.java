package io.headrace.sdk;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A header of a message.
 *
 * @param name the name; one message may have several headers of a name
 * @param value the value, or null
 */
public record Header(String name, byte @Nullable [] value) {
  /**
   * A header whose value is text.
   *
   * @param name the name
   * @param value the text, sent as UTF-8
   * @return the header
   */
  public static Header text(String name, String value) {
    return new Header(name, value.getBytes(StandardCharsets.UTF_8));
  }

  /**
   * Checks that there is a name.
   *
   * @param name the name; one message may have several headers of a name
   * @param value the value, or null
   */
  public Header {
    Objects.requireNonNull(name, "the name of a header");
  }

  @Override
  public boolean equals(@Nullable Object other) {
    return other instanceof Header that
        && name.equals(that.name)
        && Arrays.equals(value, that.value);
  }

  @Override
  public int hashCode() {
    return 31 * name.hashCode() + Arrays.hashCode(value);
  }

  @Override
  public String toString() {
    return name + (value == null ? ": null" : ": " + size(value));
  }

  static String size(byte[] bytes) {
    return bytes.length == 1 ? "1 byte" : bytes.length + " bytes";
  }
}
