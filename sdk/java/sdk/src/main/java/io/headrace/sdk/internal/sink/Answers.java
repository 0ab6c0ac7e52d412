package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.Committed;
import io.headrace.protocol.v1.Failed;
import io.headrace.protocol.v1.Prepared;
import io.headrace.protocol.v1.SinkServiceAttachRequest;
import io.headrace.protocol.v1.Staged;
import io.headrace.sdk.Metrics;
import io.headrace.sdk.internal.Reports;
import io.headrace.sdk.internal.wire.Signal;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.Transaction;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * The answers of a sink, on their way to the session's thread. There are at most as many as the
 * gateway has asked for.
 */
final class Answers {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");

  private final String sink;
  private final Metrics metrics;
  private final Reports reports;
  private final Signal signal;
  private final Queue<SinkServiceAttachRequest> waiting = new ConcurrentLinkedQueue<>();

  Answers(String sink, Metrics metrics, Reports reports, Signal signal) {
    this.sink = sink;
    this.metrics = metrics;
    this.reports = reports;
    this.signal = signal;
  }

  /** The next answer to send; null if there is none. */
  SinkServiceAttachRequest poll() {
    return waiting.poll();
  }

  boolean isEmpty() {
    return waiting.isEmpty();
  }

  /** Has the session look again. */
  void wake() {
    signal.raise();
  }

  void staged(long id, long messages, List<Staged.Refused> refused) {
    if (!refused.isEmpty()) {
      LOG.log(
          Level.INFO,
          "sink {0}: refused rows: {1}, the first because: {2}",
          sink,
          refused.size(),
          refused.get(0).getReason());
    }
    metrics.partStaged(sink, messages - refused.size(), refused.size());
    reports.recovered("sink");
    say(
        SinkServiceAttachRequest.newBuilder()
            .setStaged(Staged.newBuilder().setId(id).addAllRefused(refused)));
  }

  void prepared(Transaction transaction) {
    reports.recovered("sink");
    say(
        SinkServiceAttachRequest.newBuilder()
            .setPrepared(Prepared.newBuilder().setTransaction(Wire.transaction(transaction))));
  }

  void committed(Transaction transaction) {
    metrics.committed(sink);
    reports.recovered("sink");
    say(
        SinkServiceAttachRequest.newBuilder()
            .setCommitted(Committed.newBuilder().setTransaction(Wire.transaction(transaction))));
  }

  void partFailed(long id, Part part, Throwable error) {
    failed(
        "partition %d of batch %d of pipeline %s"
            .formatted(part.partition(), part.transaction().batch(), part.transaction().pipeline()),
        error);
    say(
        SinkServiceAttachRequest.newBuilder()
            .setFailed(Failed.newBuilder().setPartId(id).setReason(describe(error))));
  }

  void transactionFailed(Transaction transaction, String doing, Throwable error) {
    unansweredFailed(transaction, doing, error);
    say(
        SinkServiceAttachRequest.newBuilder()
            .setFailed(
                Failed.newBuilder()
                    .setTransaction(Wire.transaction(transaction))
                    .setReason(describe(error))));
  }

  /** Logs that something failed to which the gateway expects no answer. */
  void unansweredFailed(Transaction transaction, String doing, Throwable error) {
    failed(
        "%s batch %d of pipeline %s".formatted(doing, transaction.batch(), transaction.pipeline()),
        error);
  }

  /** The type and text of an exception. */
  static String describe(Throwable error) {
    String name = error.getClass().getSimpleName();
    return error.getMessage() == null ? name : name + ": " + error.getMessage();
  }

  private void failed(String what, Throwable error) {
    String text = "sink %s: %s: %s".formatted(sink, what, describe(error));
    LOG.log(Level.ERROR, text, error);
    reports.failing("sink", text);
  }

  private void say(SinkServiceAttachRequest.Builder answer) {
    waiting.add(answer.build());
    signal.raise();
  }
}
