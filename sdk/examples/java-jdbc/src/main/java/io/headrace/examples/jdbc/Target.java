package io.headrace.examples.jdbc;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import io.headrace.sdk.Message;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Types;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * The columns that are written, and what of a message goes into each.
 *
 * @param table the table, as it is written in SQL
 * @param columns the columns that are written
 * @param value the column that takes the value as it is; empty if values are objects of columns
 * @param key the column that takes the key as it is, if there is one
 */
record Target(String table, List<Column> columns, Optional<Column> value, Optional<Column> key) {
  /** A row that no table would take. */
  static final class InvalidRowException extends Exception {
    private static final long serialVersionUID = 1;

    InvalidRowException(String reason) {
      super(reason);
    }
  }

  String insert() {
    return "INSERT INTO %s (%s) VALUES (%s)"
        .formatted(
            table,
            columns.stream().map(Column::quoted).collect(Collectors.joining(", ")),
            columns.stream().map(column -> "?").collect(Collectors.joining(", ")));
  }

  /** Sets the parameters of {@link #insert}. */
  void bind(PreparedStatement statement, Message message) throws SQLException, InvalidRowException {
    List<Object> values = values(message);
    for (int at = 0; at < values.size(); at++) {
      Column column = columns.get(at);
      Object entry = values.get(at);
      if (entry == null) {
        statement.setNull(at + 1, column.type());
      } else if (column.type() == Types.OTHER) {
        statement.setObject(at + 1, entry, Types.OTHER); // such as json and uuid of PostgreSQL
      } else if (entry instanceof byte[] bytes) {
        statement.setBytes(at + 1, bytes);
      } else {
        statement.setObject(at + 1, entry);
      }
    }
  }

  /**
   * What goes into each column.
   *
   * @throws InvalidRowException if a column does not take it
   */
  List<Object> values(Message message) throws InvalidRowException {
    JsonObject fields = value.isPresent() ? new JsonObject() : object(message);
    List<Object> values = new ArrayList<>();
    for (Column column : columns) {
      Object entry;
      if (value.isPresent() && value.get().equals(column)) {
        entry = plain(column, message.value());
      } else if (key.isPresent() && key.get().equals(column)) {
        entry = plain(column, message.key());
      } else {
        entry = of(column, fields.get(column.name()));
      }
      if (entry == null && !column.nullable()) {
        throw new InvalidRowException("column %s must not be null".formatted(column.name()));
      }
      values.add(entry);
    }
    return values;
  }

  private JsonObject object(Message message) throws InvalidRowException {
    if (message.value() == null) {
      throw new InvalidRowException("it has no value");
    }
    JsonElement parsed;
    try {
      parsed = JsonParser.parseString(text(message.value()));
    } catch (JsonParseException error) {
      throw new InvalidRowException("it is not JSON: " + error.getMessage());
    }
    if (!parsed.isJsonObject()) {
      throw new InvalidRowException("it is not a JSON object");
    }
    JsonObject fields = new JsonObject();
    for (var field : parsed.getAsJsonObject().entrySet()) {
      Column column = Column.find(columns, field.getKey()).orElse(null);
      if (column == null) {
        throw new InvalidRowException("the table has no column " + field.getKey());
      }
      if (fields.has(column.name())) {
        throw new InvalidRowException("several fields are for column " + column.name());
      }
      fields.add(column.name(), field.getValue());
    }
    return fields;
  }

  private static Object plain(Column column, byte[] bytes) throws InvalidRowException {
    if (bytes == null || column.isBinary()) {
      return bytes;
    }
    return limited(column, text(bytes));
  }

  private static Object of(Column column, JsonElement entry) throws InvalidRowException {
    if (entry == null || entry.isJsonNull()) {
      return null;
    }
    try {
      String text = entry.isJsonPrimitive() ? entry.getAsString() : entry.toString();
      return switch (column.type()) {
        case Types.BIT, Types.BOOLEAN -> bool(column, text);
        case Types.TINYINT -> (int) Byte.parseByte(text);
        case Types.SMALLINT -> (int) Short.parseShort(text);
        case Types.INTEGER -> Integer.parseInt(text);
        case Types.BIGINT -> Long.parseLong(text);
        case Types.REAL, Types.FLOAT, Types.DOUBLE -> Double.parseDouble(text);
        case Types.NUMERIC, Types.DECIMAL -> decimal(column, new BigDecimal(text));
        case Types.DATE -> LocalDate.parse(text);
        case Types.TIME -> LocalTime.parse(text);
        case Types.TIMESTAMP, Types.TIMESTAMP_WITH_TIMEZONE ->
            column.isZoned() ? OffsetDateTime.parse(text) : LocalDateTime.parse(text);
        default -> column.isBinary() ? Base64.getDecoder().decode(text) : limited(column, text);
      };
    } catch (IllegalArgumentException | DateTimeException error) {
      throw new InvalidRowException(
          "column %s of type %s does not take %s"
              .formatted(column.name(), column.typeName(), entry));
    }
  }

  private static boolean bool(Column column, String text) throws InvalidRowException {
    if (!text.equals("true") && !text.equals("false")) {
      throw new InvalidRowException("column %s wants true or false".formatted(column.name()));
    }
    return text.equals("true");
  }

  private static BigDecimal decimal(Column column, BigDecimal number) throws InvalidRowException {
    int digits = number.precision() - number.scale();
    if (column.size() > 0 && number.signum() != 0 && digits > column.size() - column.scale()) {
      throw new InvalidRowException(
          "column %s has %d digits before the point, and %s has more"
              .formatted(column.name(), column.size() - column.scale(), number));
    }
    return number;
  }

  private static String limited(Column column, String text) throws InvalidRowException {
    if (column.size() > 0 && text.codePointCount(0, text.length()) > column.size()) {
      throw new InvalidRowException(
          "the longest text that column %s takes has a length of %d"
              .formatted(column.name(), column.size()));
    }
    if (text.indexOf('\0') >= 0) {
      throw new InvalidRowException(
          "column %s takes no NUL: not every database can store it".formatted(column.name()));
    }
    return text;
  }

  private static String text(byte[] bytes) throws InvalidRowException {
    try {
      return UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
    } catch (CharacterCodingException error) {
      throw new InvalidRowException("it is not UTF-8");
    }
  }
}
