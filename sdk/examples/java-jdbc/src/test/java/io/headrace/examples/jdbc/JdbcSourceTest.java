package io.headrace.examples.jdbc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.sdk.InvalidConnectorException;
import io.headrace.sdk.Position;
import io.headrace.sdk.source.Backlog;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.Progress;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class JdbcSourceTest {
  @TempDir Path folder;
  private Tables tables;
  private final Reported reported = new Reported();

  @BeforeEach
  void makeTables() throws Exception {
    tables = Tables.in(folder);
    tables.execute(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR(50), amount DECIMAL(10, 2),"
            + " paid BOOLEAN, placed TIMESTAMP WITH TIME ZONE, raw VARBINARY(10))");
  }

  @AfterEach
  void closeTables() throws Exception {
    tables.execute("SHUTDOWN");
  }

  private JdbcSource source(String... more) {
    return sourceOf("orders", more);
  }

  private JdbcSource sourceOf(String table, String... more) {
    List<String> words = new ArrayList<>(List.of("--url", tables.url(), "--source", "orders"));
    words.addAll(List.of("--table", table, "--lag", "0"));
    words.addAll(List.of(more));
    JdbcSource source =
        new JdbcSource(
            new Arguments(words.toArray(String[]::new), JdbcSource.OPTIONS, JdbcSource.FLAGS),
            tables.database());
    source.reportTo(reported);
    return source;
  }

  /** Reads until there is nothing more. */
  private static Gathered read(PartitionReader reader) throws Exception {
    Gathered batch = new Gathered();
    while (reader.read(batch) == Progress.MORE) {}
    return batch;
  }

  private Gathered read(Optional<Position> position, String... more) throws Exception {
    try (PartitionReader reader = source(more).open("0", position)) {
      return read(reader);
    }
  }

  @Test
  void aRowIsAnObjectOfItsColumns() throws Exception {
    tables.execute(
        "INSERT INTO orders VALUES (7, 'a \"b\"', 12.50, TRUE, '2026-01-31 12:00:00+01', X'00ff')",
        "INSERT INTO orders (id) VALUES (9)");
    Gathered batch = read(Optional.empty());
    assertEquals(List.of(7L, 9L), batch.sequences);
    assertEquals(List.of("7", "9"), batch.keys);
    assertEquals(
        "{\"ID\":7,\"CUSTOMER\":\"a \\\"b\\\"\",\"AMOUNT\":12.50,\"PAID\":true,"
            + "\"PLACED\":\"2026-01-31T12:00+01:00\",\"RAW\":\"AP8=\"}",
        batch.values.get(0));
    assertEquals(
        "{\"ID\":9,\"CUSTOMER\":null,\"AMOUNT\":null,\"PAID\":null,\"PLACED\":null,\"RAW\":null}",
        batch.values.get(1));
  }

  @Test
  void oneColumnMayBeTheValueAndAnotherTheKey() throws Exception {
    tables.execute(
        "INSERT INTO orders (id, customer, raw) VALUES (1, 'ann', X'6869'), (2, NULL, NULL)");
    Gathered batch = read(Optional.empty(), "--key", "customer", "--value-column", "raw");
    assertEquals("ann", batch.keys.get(0));
    assertEquals("hi", batch.values.get(0));
    assertEquals(null, batch.keys.get(1));
    assertEquals(null, batch.values.get(1));
  }

  private Gathered readOdd(Optional<Position> position, String... more) throws Exception {
    try (PartitionReader reader = sourceOf("odd", more).open("0", position)) {
      return read(reader);
    }
  }

  @Test
  void columnsMayHaveAnyNames() throws Exception {
    tables.execute(
        "CREATE TABLE odd (\"a\" INT, \"A\" INT, \"select\" INT, \"x \"\"y\"\", z\" INT, \"ID\" INT,"
            + " \"id\" INT PRIMARY KEY)",
        "INSERT INTO odd VALUES (1, 2, 3, 4, 5, 6), (11, 12, 13, 14, 4, 16)");
    Gathered batch = readOdd(Optional.empty(), "--order", "id", "--key", "A");
    assertEquals(List.of(6L, 16L), batch.sequences);
    assertEquals(List.of("2", "12"), batch.keys);
    assertEquals(
        "{\"a\":1,\"A\":2,\"select\":3,\"x \\\"y\\\", z\":4,\"ID\":5,\"id\":6}",
        batch.values.get(0));
    Optional<Position> after = Optional.of(Position.of(6));
    assertEquals(List.of("4"), readOdd(after, "--value-column", "ID").values);
    InvalidConnectorException error =
        assertThrows(
            InvalidConnectorException.class, () -> readOdd(Optional.empty(), "--order", "Id"));
    assertTrue(error.getMessage().startsWith("there is no column Id: want one of"));
  }

  @Test
  void itGoesOnAfterAPosition() throws Exception {
    tables.execute("INSERT INTO orders (id) SELECT x FROM system_range(1, 2500)");
    assertEquals(2500, read(Optional.empty()).sequences.size());
    assertEquals(List.of(2499L, 2500L), read(Optional.of(Position.of(2498))).sequences);
    assertEquals(List.of(), read(Optional.of(Position.of(2500))).sequences);
  }

  @Test
  void aBatchThatIsFullIsLeft() throws Exception {
    tables.execute("INSERT INTO orders (id) VALUES (1), (2), (3)");
    try (PartitionReader reader = source().open("0", Optional.empty())) {
      Gathered batch = new Gathered(2);
      assertEquals(Progress.MORE, reader.read(batch));
      assertEquals(List.of(1L, 2L), batch.sequences);
      assertEquals(List.of(3L), read(reader).sequences);
      assertEquals(Optional.of(Backlog.upTo(3)), reader.backlog());
    }
  }

  @Test
  void rowsAreOrderedByTimeAndNumber() throws Exception {
    tables.execute(
        "INSERT INTO orders (id, placed) VALUES (5, '2026-01-01 00:00:00Z'), (3, '2026-01-02 00:00:00Z'),"
            + " (1, '2026-01-02 00:00:00Z'), (2, '2026-01-02 00:00:00.000001Z'), (4, NULL)");
    Gathered batch = read(Optional.empty(), "--order", "placed,id");
    assertEquals(List.of("5", "1", "3", "2"), batch.keys);
    assertEquals(Instant.parse("2026-01-01T00:00:00Z"), batch.times.get(0));
    assertEquals(1, batch.sequences.get(2) - batch.sequences.get(1));
    for (int at = 0; at < 4; at++) {
      Gathered rest = read(Optional.of(batch.positions.get(at)), "--order", "placed,id");
      assertEquals(batch.keys.subList(at + 1, 4), rest.keys);
      assertEquals(batch.sequences.subList(at + 1, 4), rest.sequences);
    }
  }

  @Test
  void aTimeWithoutAZoneIsExact() throws Exception {
    tables.execute(
        "CREATE TABLE events (n INT, at TIMESTAMP(9))",
        "INSERT INTO events VALUES (1, '2026-03-29 02:30:00.123456789'), (2, '2026-03-29 02:30:00.123456790')");
    Gathered batch = read(Optional.empty(), "--table", "events", "--order", "at,n");
    assertEquals(List.of("1", "2"), batch.keys);
    Gathered rest =
        read(Optional.of(batch.positions.get(0)), "--table", "events", "--order", "at,n");
    assertEquals(List.of("2"), rest.keys);
    assertEquals(batch.sequences.subList(1, 2), rest.sequences);
  }

  @Test
  void aRowThatVanishesDoesNotMoveThoseOfLaterTimes() throws Exception {
    tables.execute(
        "INSERT INTO orders (id, placed) VALUES (1, '2026-01-01 00:00:00Z'), (2, '2026-01-02 00:00:00Z'),"
            + " (3, '2026-01-03 00:00:00Z')");
    Gathered before = read(Optional.empty(), "--order", "placed,id");
    tables.execute("DELETE FROM orders WHERE id = 1");
    Gathered after = read(Optional.empty(), "--order", "placed,id");
    assertEquals(before.sequences.subList(1, 3), after.sequences);
  }

  @Test
  void aRowThatIsCommittedLateIsReadIfTheLagIsLonger() throws Exception {
    long[] now = {0};
    Duration lag = Duration.ofSeconds(10);
    List<Column> columns;
    try (Connection connection = tables.connect()) {
      columns = Column.of(connection, "orders");
    }
    Growth growth = Growth.by(List.of("id"), columns);
    var table = new Table("orders", growth, growth.id(), Optional.empty(), columns, "");
    try (Connection slow = tables.connect();
        Statement statement = slow.createStatement();
        TableReader reader =
            new TableReader(
                table,
                tables.database(),
                new Horizon(lag, () -> now[0]),
                Optional.empty(),
                false,
                reported)) {
      slow.setAutoCommit(false);
      statement.execute("INSERT INTO orders (id) VALUES (1)");
      tables.execute("INSERT INTO orders (id) VALUES (2)");
      assertEquals(List.of(), read(reader).sequences);
      now[0] += lag.toNanos() - 1;
      assertEquals(List.of(), read(reader).sequences);
      slow.commit();
      tables.execute("INSERT INTO orders (id) VALUES (3)");
      now[0] += 1;
      assertEquals(List.of(1L, 2L), read(reader).sequences);
      now[0] += lag.toNanos();
      assertEquals(List.of(3L), read(reader).sequences);
    }
  }

  @Test
  void onceEndsWithTheRowsOfTheBeginning() throws Exception {
    assertEquals(Progress.END, source("--once").open("0", Optional.empty()).read(new Gathered()));
    tables.execute("INSERT INTO orders (id) VALUES (1)");
    try (PartitionReader reader = source("--once").open("0", Optional.empty())) {
      Gathered batch = new Gathered();
      assertEquals(Progress.MORE, reader.read(batch));
      tables.execute("INSERT INTO orders (id) VALUES (2)");
      assertEquals(Progress.END, reader.read(batch));
      assertEquals(List.of(1L), batch.sequences);
    }
  }

  @Test
  void aDatabaseThatIsAwayIsReportedAndAskedAgain() throws Exception {
    tables.execute("INSERT INTO orders (id) VALUES (1)");
    try (PartitionReader reader = source().open("0", Optional.empty())) {
      assertEquals(List.of(1L), read(reader).sequences);
      assertEquals("running", reported.state);
      tables.execute("SHUTDOWN");
      Gathered batch = new Gathered();
      assertEquals(Progress.IDLE, reader.read(batch));
      assertTrue(reported.state.startsWith("waiting: the database is away: "), reported.state);
      tables.execute("INSERT INTO orders (id) VALUES (2)");
      while (batch.isEmpty()) {
        reader.read(batch);
      }
      assertEquals(List.of(2L), batch.sequences);
      assertEquals("running", reported.state);
    }
  }

  @Test
  void mistakesAreNamed() throws Exception {
    tables.execute("INSERT INTO orders (id) VALUES (-1)");
    IllegalStateException negative =
        assertThrows(IllegalStateException.class, () -> read(Optional.empty()));
    assertTrue(negative.getMessage().contains("-1"), negative.getMessage());
    assertMistake("no column nothing", "--order", "nothing");
    assertMistake("CUSTOMER is of type", "--order", "customer");
    assertMistake("want an integer column", "--order", "id,id");
    assertMistake("--order a,b,c", "--order", "a,b,c");
    assertMistake("--lag soon", "--lag", "soon");
    assertMistake("--poll -1", "--poll", "-1");
    assertMistake("check --url", "--table", "missing");
    assertMistake("--colour is no option", "--colour", "red");
    assertMistake("--key needs a value", "--key");
  }

  private void assertMistake(String text, String... more) {
    InvalidConnectorException error =
        assertThrows(InvalidConnectorException.class, () -> source(more));
    assertTrue(error.getMessage().contains(text), error.getMessage());
    assertEquals(2, error.exitCode());
  }
}
