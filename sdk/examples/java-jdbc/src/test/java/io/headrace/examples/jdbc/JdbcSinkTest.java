package io.headrace.examples.jdbc;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.sdk.Message;
import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.RowStream;
import io.headrace.sdk.sink.Rows;
import io.headrace.sdk.sink.TestRows;
import io.headrace.sdk.sink.Transaction;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class JdbcSinkTest {
  @TempDir Path folder;
  private Tables tables;
  private final Reported reported = new Reported();

  @BeforeEach
  void makeTables() throws Exception {
    tables = Tables.in(folder);
    tables.execute(
        "CREATE TABLE totals (id BIGINT GENERATED ALWAYS AS IDENTITY, customer VARCHAR(5) NOT NULL,"
            + " total DECIMAL(5, 2), n INT, paid BOOLEAN, due DATE, placed TIMESTAMP WITH TIME ZONE,"
            + " raw VARBINARY(10), score DOUBLE PRECISION, CHECK (n < 100))");
  }

  @AfterEach
  void closeTables() throws Exception {
    tables.execute("SHUTDOWN");
  }

  private JdbcSink sink(String... more) {
    return sinkOf("totals", more);
  }

  private JdbcSink sinkOf(String table, String... more) {
    List<String> words = new ArrayList<>(List.of("--url", tables.url(), "--sink", "totals"));
    words.addAll(List.of("--table", table));
    words.addAll(List.of(more));
    Arguments arguments = new Arguments(words.toArray(String[]::new), JdbcSink.OPTIONS, Set.of());
    JdbcSink sink = new JdbcSink(arguments, new Database(arguments.require("url"), Map.of()));
    sink.reportTo(reported);
    return sink;
  }

  private static Rows rows(String... values) {
    Message[] messages = new Message[values.length];
    for (int at = 0; at < values.length; at++) {
      messages[at] = new Message(at, values[at].replace('\'', '"').getBytes(UTF_8));
    }
    return TestRows.of(messages);
  }

  private static RowStream stream(Rows... rows) {
    return () -> List.of(rows).iterator();
  }

  private List<String> customers() throws SQLException {
    return tables.rows("SELECT customer FROM totals ORDER BY id");
  }

  @Test
  void aBatchIsWrittenOnce() throws Exception {
    JdbcSink sink = sink();
    Transaction first = new Transaction("p", 0);
    assertEquals(OptionalLong.empty(), sink.last("p"));
    for (int time = 0; time < 2; time++) {
      sink.write(
          first, stream(rows("{'customer':'a'}", "{'customer':'b'}"), rows("{'customer':'c'}")));
      assertEquals(List.of("a", "b", "c"), customers());
    }
    sink.write(new Transaction("p", 1), stream());
    sink.write(new Transaction("P", 0), stream(rows("{'customer':'d'}")));
    sink.write(first, stream(rows("{'customer':'e'}")));
    assertEquals(List.of("a", "b", "c", "d"), customers());
    JdbcSink again = sink();
    assertEquals(OptionalLong.of(1), again.last("p"));
    assertEquals(Set.of("p", "P"), again.pipelines());
    assertEquals("running", reported.state);
  }

  @Test
  void everyTypeIsWritten() throws Exception {
    Rows rows =
        rows(
            "{'customer':'ann','TOTAL':-12.5,'n':3,'paid':true,'due':'2026-01-31',"
                + "'placed':'2026-01-31T12:00:00Z','raw':'AP8=','score':1e3}",
            "{'customer':'x'}");
    sink().write(new Transaction("p", 0), stream(rows));
    assertEquals(
        List.of("ann -12.50 3 TRUE 2026-01-31 2026-01-31 12:00:00+00 00ff 1000.0"),
        tables.rows(
            "SELECT customer, total, n, paid, due, placed, RAWTOHEX(raw), score FROM totals"
                + " WHERE customer = 'ann'"));
    assertEquals(
        List.of("x null"), tables.rows("SELECT customer, n FROM totals WHERE customer = 'x'"));
  }

  @Test
  void whatNoTableWouldTakeIsRefused() throws Exception {
    Rows rows =
        rows(
            "{'customer':'ann'}",
            "not json",
            "[1]",
            "{'customer':'toolong'}",
            "{'customer':null}",
            "{}",
            "{'customer':'a','other':1}",
            "{'customer':'a','n':1.5}",
            "{'customer':'a','n':99999999999}",
            "{'customer':'a','total':1000}",
            "{'customer':'a','paid':'perhaps'}",
            "{'customer':'a','due':'today'}",
            "{'customer':'a','raw':'*'}",
            "{'customer':'a\\u0000'}",
            "{'customer':'a','Customer':'b'}",
            "{'customer':'b'}");
    Outcomes outcomes = sink().check(rows);
    assertTrue(outcomes.isFor(16));
    assertEquals(
        List.of(1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L, 10L, 11L, 12L, 13L, 14L),
        outcomes.refused().stream().map(Outcomes.Refused::place).toList());
    assertTrue(outcomes.refused().get(2).reason().contains("has a length of 5"));
    Rows bytes = TestRows.of(new Message(0, null), new Message(1, new byte[] {(byte) 0xff}));
    assertEquals(2, sink().check(bytes).refused().size());
  }

  @Test
  void columnsWhoseNamesDifferInCaseAreWrittenApart() throws Exception {
    tables.execute("CREATE TABLE odd (\"a\" INT, \"A\" INT, \"order \"\"by\"\"\" INT)");
    JdbcSink sink = sinkOf("odd");
    assertEquals(List.of(), sink.check(rows("{'a':1,'A':2,'ORDER \\'BY\\'':3}")).refused());
    sink.write(new Transaction("p", 0), stream(rows("{'a':1,'A':2,'ORDER \\'BY\\'':3}")));
    assertEquals(List.of("1 2 3"), tables.rows("SELECT * FROM odd"));
  }

  @Test
  void valuesAndKeysMayBeColumnsAsTheyAre() throws Exception {
    JdbcSink sink = sink("--value-column", "raw", "--key-column", "customer");
    Rows rows =
        TestRows.of(
            new Message(0, "k".getBytes(UTF_8), new byte[] {(byte) 0xff}),
            new Message(1, "n".getBytes(UTF_8), null),
            new Message(2, null, new byte[1]));
    assertEquals(1, sink.check(rows).refused().size());
    sink.write(new Transaction("p", 0), stream(TestRows.of(rows.get(0), rows.get(1))));
    assertEquals(List.of("k 1", "n null"), tables.rows("SELECT customer, length(raw) FROM totals"));
  }

  @Test
  void nothingIsLeftOfABatchThatTheDatabaseRefuses() throws Exception {
    JdbcSink sink = sink();
    Transaction batch = new Transaction("p", 0);
    assertThrows(
        SQLException.class,
        () -> sink.write(batch, stream(rows("{'customer':'a'}", "{'customer':'b','n':100}"))));
    assertEquals(List.of(), customers());
    assertEquals(OptionalLong.empty(), sink.last("p"));
    sink.write(batch, stream(rows("{'customer':'a'}", "{'customer':'b','n':99}")));
    assertEquals(List.of("a", "b"), customers());
  }

  @Test
  void twoProcessesWriteABatchOnce() throws Exception {
    List<JdbcSink> sinks = List.of(sink(), sink(), sink(), sink());
    var threads = Executors.newFixedThreadPool(sinks.size());
    for (int batch = 0; batch < 20; batch++) {
      Transaction transaction = new Transaction("p", batch);
      List<Future<?>> writes = new ArrayList<>();
      for (JdbcSink sink : sinks) {
        writes.add(
            threads.submit(
                () -> {
                  sink.write(transaction, stream(rows("{'customer':'a'}")));
                  return null;
                }));
      }
      for (Future<?> write : writes) {
        try {
          write.get();
        } catch (java.util.concurrent.ExecutionException error) {
          // The first batch of a pipeline is a new row, which only one of them can insert.
          assertTrue(error.getCause() instanceof SQLException, error::toString);
        }
      }
    }
    threads.shutdown();
    assertEquals(20, customers().size());
  }

  @Test
  void aDatabaseThatIsAwayIsWaitedFor() throws Exception {
    JdbcSink sink = sink("--url", tables.url() + ";IFEXISTS=TRUE");
    Transaction batch = new Transaction("p", 0);
    tables.execute("SHUTDOWN");
    sink.write(batch, stream(rows("{'customer':'a'}")));
    assertEquals(List.of("a"), customers());
    tables.execute("SHUTDOWN");
    Path file = folder.resolve("test.mv.db");
    Path away = Files.move(file, folder.resolve("away"));
    var thread = Executors.newSingleThreadExecutor();
    Future<?> write =
        thread.submit(
            () -> {
              assertEquals(OptionalLong.of(0), sink.last("p"));
              sink.write(new Transaction("p", 1), stream(rows("{'customer':'b'}")));
              return null;
            });
    assertTrue(reported.waits.take().startsWith("the database is away: "), reported.state);
    Files.move(away, file);
    write.get();
    thread.shutdown();
    assertEquals(List.of("a", "b"), customers());
    assertEquals("running", reported.state);
  }

  @Test
  void aPipelineMayHaveALongName() throws Exception {
    String name = "ä".repeat(127);
    try (Connection connection = tables.connect();
        Statement statement = connection.createStatement()) {
      sink().write(new Transaction(name, 7), stream());
      assertTrue(statement.executeQuery("SELECT * FROM headrace_batches").next());
    }
    assertEquals(Set.of(name), sink().pipelines());
  }
}
