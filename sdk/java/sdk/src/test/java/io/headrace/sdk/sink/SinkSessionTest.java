package io.headrace.sdk.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Metadata;
import io.grpc.Status;
import io.headrace.protocol.v1.SinkMode;
import io.headrace.protocol.v1.SinkServiceAttachRequest;
import io.headrace.protocol.v1.SinkServiceAttachRequest.MessageCase;
import io.headrace.protocol.v1.Staged;
import io.headrace.sdk.Connector;
import io.headrace.sdk.FakeGateway;
import io.headrace.sdk.Message;
import io.headrace.sdk.SinkGateway;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class SinkSessionTest {
  private FakeGateway gateway;

  @BeforeEach
  void startGateway() throws Exception {
    gateway = new FakeGateway();
  }

  @AfterEach
  void stopGateway() throws Exception {
    gateway.close();
  }

  /** Writes what it is given, and refuses `bad`. */
  private static final class Notes implements AtLeastOnceSink {
    private final List<String> written = Collections.synchronizedList(new ArrayList<>());
    private final CountDownLatch proceed;

    Notes(CountDownLatch proceed) {
      this.proceed = proceed;
    }

    @Override
    public String name() {
      return "notes";
    }

    @Override
    public Outcomes write(Part part, Rows rows) throws InterruptedException {
      assertTrue(proceed.await(120, TimeUnit.SECONDS));
      Outcomes outcomes = Outcomes.ofEach();
      for (Message row : rows) {
        if (row.valueAsString().equals("crash")) {
          throw new IllegalStateException("crashed");
        }
        if (row.valueAsString().equals("bad")) {
          outcomes.refused("is bad");
        } else {
          written.add(row.valueAsString());
          outcomes.written();
        }
      }
      return outcomes;
    }
  }

  @Test
  void rowsAreWrittenAndRefusedOneByOne() throws Exception {
    Notes notes = new Notes(new CountDownLatch(0));
    try (Connector connector = Connector.start(notes, gateway.settings())) {
      SinkGateway session = SinkGateway.welcome(gateway);
      assertEquals(SinkMode.SINK_MODE_AT_LEAST_ONCE, session.hello.getMode());
      assertEquals("java", session.hello.getSdk().getLanguage());
      session.start(1, SinkGateway.part(0, 0));
      session.frame(1, 0, "a", "bad");
      session.frame(1, 2, "b", "bad");
      session.end(1, 4);
      Staged staged = session.answer().getStaged();
      assertEquals(1, staged.getId());
      assertEquals(
          List.of(1L, 3L), staged.getRefusedList().stream().map(row -> row.getSequence()).toList());
      session.prepare(0, SinkGateway.part(0, 0));
      assertTrue(session.answer().hasPrepared());
      connector.stop();
      assertTrue(session.answer().hasGoodbye());
    }
    assertEquals(List.of("a", "b"), notes.written);
  }

  /** Refuses the rows that begin with `late` at the end of their part, and the first one twice. */
  private static final class Judge implements AtLeastOnceSink {
    private final List<Outcomes.Refused> late = new ArrayList<>();

    @Override
    public String name() {
      return "judge";
    }

    @Override
    public Outcomes write(Part part, Rows rows) {
      Outcomes outcomes = Outcomes.ofEach();
      for (Message row : rows) {
        if (row.sequence() == 1) {
          outcomes.refused("at once");
        } else {
          outcomes.written();
        }
        if (row.valueAsString().startsWith("late")) {
          late.add(0, new Outcomes.Refused(row.sequence(), "at the end"));
        }
      }
      return outcomes;
    }

    @Override
    public List<Outcomes.Refused> end(Part part, long rows) {
      return late;
    }
  }

  @Test
  void rowsAreRefusedAtTheEndOfTheirPart() throws Exception {
    try (Connector connector = Connector.start(new Judge(), gateway.settings())) {
      SinkGateway session = SinkGateway.welcome(gateway);
      session.start(1, SinkGateway.part(0, 0));
      session.frame(1, 0, "a", "late and at once", "b");
      session.frame(1, 3, "late", "late", "c");
      session.end(1, 6);
      Staged staged = session.answer().getStaged();
      assertEquals(
          List.of("1 at once", "3 at the end", "4 at the end"),
          staged.getRefusedList().stream()
              .map(row -> row.getSequence() + " " + row.getReason())
              .toList());
      connector.stop();
      session.next(MessageCase.GOODBYE);
    }
  }

  @Test
  void aRefusalOutsideOfThePartFailsIt() throws Exception {
    Judge judge = new Judge();
    judge.late.add(new Outcomes.Refused(1, "there is no such row"));
    try (Connector connector = Connector.start(judge, gateway.settings())) {
      SinkGateway session = SinkGateway.welcome(gateway);
      session.deliver(1, SinkGateway.part(0, 0), "a");
      SinkServiceAttachRequest answer = session.answer();
      assertTrue(
          answer.getFailed().getReason().contains("place 1; the places of this part are below 1"));
      connector.stop();
      session.next(MessageCase.GOODBYE);
    }
  }

  @Test
  void aFailureIsOfItsPartAlone() throws Exception {
    Notes notes = new Notes(new CountDownLatch(0));
    try (Connector connector = Connector.start(notes, gateway.settings())) {
      SinkGateway session = SinkGateway.welcome(gateway);
      session.deliver(1, SinkGateway.part(0, 0), "crash");
      SinkServiceAttachRequest answer = session.answer();
      assertEquals(1, answer.getFailed().getPartId());
      assertTrue(answer.getFailed().getReason().contains("crashed"));
      session.deliver(2, SinkGateway.part(0, 1), "a");
      assertEquals(2, session.answer().getStaged().getId());
      connector.stop();
      session.next(MessageCase.GOODBYE);
    }
  }

  @Test
  void missingRowsAreNoticed() throws Exception {
    try (Connector connector =
        Connector.start(new Notes(new CountDownLatch(0)), gateway.settings())) {
      SinkGateway session = SinkGateway.welcome(gateway);
      session.start(1, SinkGateway.part(0, 0));
      session.frame(1, 0, "a");
      session.end(1, 2);
      assertTrue(session.answer().getFailed().getReason().contains("2 expected, 1 arrived"));
      connector.stop();
      session.next(MessageCase.GOODBYE);
    }
  }

  @Test
  void aSinkThatIsBehindSaysSo() throws Exception {
    CountDownLatch proceed = new CountDownLatch(1);
    Notes notes = new Notes(proceed);
    try (Connector connector =
        Connector.start(notes, gateway.settings().toBuilder().queueBytes(10).build())) {
      SinkGateway session = SinkGateway.welcome(gateway, 100);
      session.start(1, SinkGateway.part(0, 0));
      session.frame(1, 0, "a");
      session.frame(1, 1, "b");
      session.end(1, 2);
      session.next(MessageCase.BUSY);
      session.next(MessageCase.BUSY);
      proceed.countDown();
      assertTrue(session.answer().hasStaged());
      connector.stop();
      session.next(MessageCase.GOODBYE);
    }
  }

  /** Remembers what was written, by batch. */
  private static final class Payments implements IdempotentSink {
    private final List<String> written = Collections.synchronizedList(new ArrayList<>());
    private long last = -1;

    @Override
    public String name() {
      return "payments";
    }

    @Override
    public Outcomes check(Rows rows) {
      Outcomes outcomes = Outcomes.ofEach();
      for (Message row : rows) {
        if (row.valueAsString().equals("bad")) {
          outcomes.refused("is bad");
        } else {
          outcomes.written();
        }
      }
      return outcomes;
    }

    @Override
    public void write(Transaction transaction, RowStream stream) {
      for (Rows rows : stream) {
        rows.forEach(row -> written.add(transaction.batch() + row.valueAsString()));
      }
      last = transaction.batch();
    }

    @Override
    public OptionalLong last(String pipeline) {
      return last < 0 ? OptionalLong.empty() : OptionalLong.of(last);
    }
  }

  @Test
  void aTransactionIsWrittenOnceAndOnlyOfThePartsThatCount() throws Exception {
    Payments payments = new Payments();
    try (Connector connector =
        Connector.start(payments, gateway.settings().toBuilder().holdBytes(1).build())) {
      SinkGateway session = SinkGateway.welcome(gateway);
      assertEquals(SinkMode.SINK_MODE_BATCH_IDEMPOTENT, session.hello.getMode());
      session.deliver(1, SinkGateway.part(0, 1), "c", "bad");
      session.deliver(2, SinkGateway.part(0, 7), "retried");
      session.deliver(3, SinkGateway.part(0, 0), "a", "b");
      session.deliver(4, SinkGateway.part(0, 9), "dropped");
      session.drop(4);
      for (int part = 0; part < 4; part++) {
        assertTrue(session.answer().hasStaged());
      }
      session.prepare(0, SinkGateway.part(0, 0), SinkGateway.part(0, 1));
      assertTrue(session.answer().hasPrepared());
      session.prepare(0, SinkGateway.part(0, 0), SinkGateway.part(0, 1));
      assertTrue(session.answer().hasPrepared());
      session.prepare(1, SinkGateway.part(1, 0));
      assertTrue(session.answer().getFailed().getReason().contains("no longer here"));
      session.session().end(Status.UNAVAILABLE, new Metadata());
      SinkGateway second = SinkGateway.welcome(gateway);
      assertEquals(List.of(SinkGateway.transaction(0)), second.hello.getCommittedList());
      connector.stop();
      second.session().awaitEnd();
    }
    assertEquals(List.of("0a", "0b", "0c"), payments.written);
  }

  @Test
  void aTwoPhaseSinkStagesVotesAndCommits() throws Exception {
    Ledger ledger = new Ledger();
    try (Connector connector = Connector.start(ledger, gateway.settings())) {
      SinkGateway session = SinkGateway.welcome(gateway);
      assertEquals(SinkMode.SINK_MODE_TWO_PHASE, session.hello.getMode());
      session.deliver(1, SinkGateway.part(0, 0), "a", "bad");
      session.deliver(2, SinkGateway.part(0, 1), "b");
      session.answer();
      session.answer();
      session.prepare(0, SinkGateway.part(0, 0));
      assertTrue(session.answer().hasPrepared());
      assertEquals(List.of(), ledger.visible());
      session.commit(0);
      assertTrue(session.answer().hasCommitted());
      session.commit(0);
      assertTrue(session.answer().hasCommitted());
      assertEquals(List.of("a"), ledger.visible());
      session.commit(5);
      assertTrue(session.answer().getFailed().getReason().contains("unknown"));
      connector.stop();
      session.next(MessageCase.GOODBYE);
    }
  }

  @Test
  void whatIsStagedAndPreparedIsListedAfterAReconnect() throws Exception {
    Ledger ledger = new Ledger();
    try (Connector connector = Connector.start(ledger, gateway.settings())) {
      SinkGateway first = SinkGateway.welcome(gateway);
      first.deliver(1, SinkGateway.part(0, 0), "a");
      first.answer();
      first.prepare(0, SinkGateway.part(0, 0));
      first.answer();
      first.deliver(2, SinkGateway.part(1, 0), "b");
      first.answer();
      first.session().end(Status.UNAVAILABLE, new Metadata());
      SinkGateway second = SinkGateway.welcome(gateway);
      assertEquals(
          List.of(SinkGateway.part(0, 0), SinkGateway.part(1, 0)), second.hello.getStagedList());
      assertEquals(List.of(SinkGateway.transaction(0)), second.hello.getPreparedList());
      second.abort(1);
      second.commit(0);
      assertTrue(second.answer().hasCommitted());
      second.drain(10_000);
      second.next(MessageCase.GOODBYE);
      SinkGateway third = SinkGateway.welcome(gateway);
      assertEquals(List.of(), third.hello.getStagedList());
      assertEquals(List.of(SinkGateway.transaction(0)), third.hello.getCommittedList());
      connector.stop();
      third.session().awaitEnd();
    }
    assertEquals(List.of("a"), ledger.visible());
  }

  @Test
  void aPartThatIsDroppedWhileItArrivesIsDroppedInTheSinkAndNotAnswered() throws Exception {
    Ledger ledger = new Ledger();
    try (Connector connector = Connector.start(ledger, gateway.settings())) {
      SinkGateway session = SinkGateway.welcome(gateway);
      session.start(1, SinkGateway.part(0, 0));
      session.frame(1, 0, "a");
      session.drop(1);
      session.frame(1, 1, "b");
      session.end(1, 2);
      session.deliver(2, SinkGateway.part(0, 0), "c");
      Staged staged = session.answer().getStaged();
      assertEquals(2, staged.getId());
      session.prepare(0, SinkGateway.part(0, 0));
      assertTrue(session.answer().hasPrepared());
      session.commit(0);
      session.answer();
      connector.stop();
      session.next(MessageCase.GOODBYE);
    }
    assertEquals(List.of("c"), ledger.visible());
  }

  @Test
  void onePartMayWaitForAnotherThoughItsQueueIsFull() throws Exception {
    CountDownLatch first = new CountDownLatch(1);
    Ledger ledger = new Ledger();
    ledger.beforeStaging =
        part -> {
          if (part.partition() == 0) {
            assertTrue(first.await(120, TimeUnit.SECONDS));
          }
        };
    ledger.afterStaging =
        part -> {
          if (part.partition() == 1) {
            first.countDown();
          }
        };
    try (Connector connector =
        Connector.start(ledger, gateway.settings().toBuilder().queueBytes(1).build())) {
      SinkGateway session = SinkGateway.welcome(gateway);
      session.start(1, SinkGateway.part(0, 0));
      session.start(2, SinkGateway.part(0, 1));
      for (int row = 0; row < 50; row++) {
        session.frame(1, row, "x");
      }
      session.end(1, 50);
      session.frame(2, 0, "y");
      session.end(2, 1);
      assertEquals(2, session.answer().getStaged().getId());
      assertEquals(1, session.answer().getStaged().getId());
      connector.stop();
      session.next(MessageCase.GOODBYE);
    }
    assertFalse(ledger.recover().staged().isEmpty());
  }
}
