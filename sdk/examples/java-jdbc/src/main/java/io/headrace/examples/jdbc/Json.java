package io.headrace.examples.jdbc;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.stream.JsonWriter;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.math.BigDecimal;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.util.Base64;
import java.util.List;

/** Writes a row as a JSON object. */
final class Json {
  private Json() {}

  /** The columns of the row at hand, by their names. */
  static byte[] of(ResultSet row, List<Column> columns) throws SQLException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (Writer text = new OutputStreamWriter(bytes, UTF_8);
        JsonWriter json = new JsonWriter(text)) {
      json.setSerializeNulls(true);
      json.beginObject();
      for (Column column : columns) {
        json.name(column.name());
        write(json, row, column);
      }
      json.endObject();
    } catch (IOException error) {
      throw new AssertionError("memory takes all bytes", error);
    }
    return bytes.toByteArray();
  }

  private static void write(JsonWriter json, ResultSet row, Column column)
      throws IOException, SQLException {
    int place = column.place();
    if (row.getObject(place) == null) {
      json.nullValue();
      return;
    }
    switch (column.type()) {
      case Types.BIT, Types.BOOLEAN -> json.value(row.getBoolean(place));
      case Types.TINYINT, Types.SMALLINT, Types.INTEGER, Types.BIGINT ->
          json.value(row.getLong(place));
      case Types.REAL, Types.FLOAT, Types.DOUBLE -> write(json, row.getDouble(place));
      case Types.NUMERIC, Types.DECIMAL -> write(json, row, row.getBigDecimal(place), place);
      default -> {
        if (column.isBinary()) {
          json.value(Base64.getEncoder().encodeToString(row.getBytes(place)));
        } else if (column.isTimestamp()) {
          Class<?> type =
              column.isZoned() ? java.time.OffsetDateTime.class : java.time.LocalDateTime.class;
          json.value(row.getObject(place, type).toString());
        } else {
          json.value(row.getString(place));
        }
      }
    }
  }

  /** JSON has no numbers that are infinite, or none. */
  private static void write(JsonWriter json, double number) throws IOException {
    if (Double.isFinite(number)) {
      json.value(number);
    } else {
      json.value(Double.toString(number));
    }
  }

  private static void write(JsonWriter json, ResultSet row, BigDecimal number, int place)
      throws IOException, SQLException {
    if (number == null) {
      json.value(row.getString(place));
    } else {
      json.value(number);
    }
  }
}
