package io.headrace.sdk.source;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * Sets what is optional of the message that was added last. The object is the same for all messages
 * of a batch: do not keep it.
 */
public interface Attributes {
  /**
   * Sets when the message happened.
   *
   * @param time the time; nanoseconds are cut off
   * @return this
   * @throws io.headrace.sdk.InvalidMessageException if the time is outside the years 1 to 9999
   */
  Attributes eventTime(Instant time);

  /**
   * Sets when the message happened.
   *
   * @param micros microseconds since 1970-01-01 UTC
   * @return this
   * @throws io.headrace.sdk.InvalidMessageException if the time is outside the years 1 to 9999
   */
  Attributes eventTimeMicros(long micros);

  /**
   * Sets the id that the source gave the message.
   *
   * @param id the id
   * @return this
   * @throws io.headrace.sdk.InvalidMessageException if it is not valid Unicode
   */
  Attributes id(String id);

  /**
   * Adds a header.
   *
   * @param name the name
   * @param value the value, or null
   * @return this
   * @throws io.headrace.sdk.InvalidMessageException if the name is not valid Unicode
   */
  Attributes header(String name, byte @Nullable [] value);

  /**
   * Adds a header whose value is text.
   *
   * @param name the name
   * @param value the text, sent as UTF-8
   * @return this
   * @throws io.headrace.sdk.InvalidMessageException if the name is not valid Unicode
   */
  default Attributes textHeader(String name, String value) {
    return header(name, value.getBytes(StandardCharsets.UTF_8));
  }
}
