package io.headrace.kafkaconnect;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/**
 * The parameters of a manifest, as {@code headrace connector run} hands them over.
 *
 * @param values the values by name
 */
public record Parameters(Map<String, Object> values) {
  /** The variable that contains them, as JSON. */
  static final String VARIABLE = "HEADRACE_PARAMETERS";

  @SuppressWarnings("unchecked")
  public static Parameters of(String json) {
    return new Parameters(
        (Map<String, Object>) Offsets.parsed(json.getBytes(StandardCharsets.UTF_8)));
  }

  /** A value as text; null if there is none. */
  public String text(String name) {
    Object value = values.get(name);
    return value == null ? null : value.toString();
  }

  public Number number(String name) {
    return (Number) values.get(name);
  }

  /** A duration in milliseconds. */
  public long millis(String name) {
    return Math.round(1000 * number(name).doubleValue());
  }

  public boolean flag(String name) {
    return Boolean.TRUE.equals(values.get(name));
  }

  @SuppressWarnings("unchecked")
  public List<String> list(String name) {
    Object value = values.get(name);
    return value == null ? List.of() : (List<String>) value;
  }
}
