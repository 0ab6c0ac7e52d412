package io.headrace.sdk.internal.log;

/**
 * A parameter of a log message that has a name: its text is in the message, and {@link Lines}
 * writes it as a field too.
 *
 * @param name the name of the field
 * @param value its value
 */
public record Field(String name, String value) {
  /** A stream. */
  public static Field stream(String name) {
    return new Field("stream", name);
  }

  /** Why something failed. */
  public static Field error(String why) {
    return new Field("error", String.valueOf(why));
  }

  @Override
  public String toString() {
    return value;
  }
}
