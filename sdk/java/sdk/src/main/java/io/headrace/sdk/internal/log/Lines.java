package io.headrace.sdk.internal.log;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.logging.Formatter;
import java.util.logging.Level;
import java.util.logging.LogRecord;

/**
 * Formats records as all parts of Headrace do: one line each, as JSON in one schema or for people.
 */
final class Lines extends Formatter {
  private static final DateTimeFormatter MICROSECONDS = pattern("SSSSSS");
  private static final DateTimeFormatter MILLISECONDS = pattern("SSS");
  private static final String OURS = "io.headrace.sdk";

  private final boolean json;

  Lines(boolean json) {
    this.json = json;
  }

  /** Whether the lines are JSON. */
  boolean json() {
    return json;
  }

  @Override
  public String format(LogRecord record) {
    return json ? jsonLine(record) : consoleLine(record);
  }

  /** The four fields that every line has, and then its own. */
  private String jsonLine(LogRecord record) {
    Map<String, String> fields = new LinkedHashMap<>();
    fields.put("timestamp", MICROSECONDS.format(record.getInstant()));
    fields.put("level", level(record.getLevel()));
    fields.put("logger", logger(String.valueOf(record.getLoggerName())));
    fields.put("event", formatMessage(record));
    LogContext.fields().forEach(fields::putIfAbsent);
    if (record.getParameters() != null) {
      for (Object parameter : record.getParameters()) {
        if (parameter instanceof Field field) {
          fields.putIfAbsent(field.name(), field.value());
        }
      }
    }
    if (record.getThrown() != null) {
      fields.putIfAbsent("error", record.getThrown().toString());
      fields.put("exception", trace(record.getThrown()));
    }
    StringBuilder line = new StringBuilder("{");
    fields.forEach(
        (name, value) -> {
          quote(line.length() > 1 ? line.append(", ") : line, name);
          quote(line.append(": "), value);
        });
    return line.append("}\n").toString();
  }

  /** Such as {@code 2026-01-31T12:00:00.250Z WARNING: stream orders/0: position lost}. */
  private String consoleLine(LogRecord record) {
    StringBuilder line = new StringBuilder(MILLISECONDS.format(record.getInstant()));
    line.append(' ').append(level(record.getLevel()).toUpperCase(Locale.ROOT)).append(": ");
    formatMessage(record).codePoints().map(Lines::printable).forEach(line::appendCodePoint);
    line.append('\n');
    if (record.getThrown() != null) {
      line.append(trace(record.getThrown()));
    }
    return line.toString();
  }

  private static String level(Level level) {
    if (level.intValue() >= Level.SEVERE.intValue()) {
      return "error";
    }
    if (level.intValue() >= Level.WARNING.intValue()) {
      return "warning";
    }
    return level.intValue() >= Level.INFO.intValue() ? "info" : "debug";
  }

  private static String logger(String name) {
    return name.startsWith(OURS) ? "headrace.sdk" : name;
  }

  private static String trace(Throwable thrown) {
    StringWriter trace = new StringWriter();
    thrown.printStackTrace(new PrintWriter(trace));
    return trace.toString();
  }

  /** What replaces a character that would control a terminal, or end the line. */
  private static int printable(int character) {
    int type = Character.getType(character);
    boolean controls =
        type == Character.CONTROL
            || type == Character.LINE_SEPARATOR
            || type == Character.PARAGRAPH_SEPARATOR;
    return controls ? 0xfffd : character;
  }

  /** Appends a text as a string of JSON, in ASCII. */
  private static void quote(StringBuilder line, String text) {
    line.append('"');
    for (int index = 0; index < text.length(); index++) {
      char character = text.charAt(index);
      switch (character) {
        case '"', '\\' -> line.append('\\').append(character);
        case '\n' -> line.append("\\n");
        case '\r' -> line.append("\\r");
        case '\t' -> line.append("\\t");
        default -> {
          if (character < ' ' || character > '~') {
            line.append("\\u%04x".formatted((int) character));
          } else {
            line.append(character);
          }
        }
      }
    }
    line.append('"');
  }

  private static DateTimeFormatter pattern(String fraction) {
    return DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss." + fraction + "'Z'", Locale.ROOT)
        .withZone(ZoneOffset.UTC);
  }
}
