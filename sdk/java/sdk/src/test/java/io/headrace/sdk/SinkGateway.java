package io.headrace.sdk;

import com.google.protobuf.ByteString;
import io.headrace.protocol.v1.Abort;
import io.headrace.protocol.v1.Commit;
import io.headrace.protocol.v1.DropPart;
import io.headrace.protocol.v1.EndPart;
import io.headrace.protocol.v1.Frame;
import io.headrace.protocol.v1.Part;
import io.headrace.protocol.v1.PartFrame;
import io.headrace.protocol.v1.Prepare;
import io.headrace.protocol.v1.SinkDrain;
import io.headrace.protocol.v1.SinkHello;
import io.headrace.protocol.v1.SinkServiceAttachRequest;
import io.headrace.protocol.v1.SinkServiceAttachRequest.MessageCase;
import io.headrace.protocol.v1.SinkServiceAttachResponse;
import io.headrace.protocol.v1.SinkWelcome;
import io.headrace.protocol.v1.StartPart;
import io.headrace.protocol.v1.Transaction;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;

/** The gateway's side of one session of a sink, in the steps that tests take. */
public final class SinkGateway {
  private final FakeGateway.Session<SinkServiceAttachRequest, SinkServiceAttachResponse> session;

  /** The connector's first message. */
  public final SinkHello hello;

  private SinkGateway(
      FakeGateway.Session<SinkServiceAttachRequest, SinkServiceAttachResponse> session)
      throws InterruptedException {
    this.session = session;
    this.hello = session.next().getHello();
  }

  /** Takes the next call and welcomes it. */
  public static SinkGateway welcome(FakeGateway gateway) throws InterruptedException {
    return welcome(gateway, 30_000);
  }

  /** Takes the next call and welcomes it, with a timeout for reading. */
  public static SinkGateway welcome(FakeGateway gateway, int readTimeoutMs)
      throws InterruptedException {
    SinkGateway sink = new SinkGateway(gateway.sink());
    sink.send(
        SinkServiceAttachResponse.newBuilder()
            .setWelcome(
                SinkWelcome.newBuilder()
                    .setProtocolVersion(1)
                    .setSession("s1")
                    .setReadTimeoutMs(readTimeoutMs)));
    return sink;
  }

  /** The name of a transaction. */
  public static Transaction transaction(long batch) {
    return Transaction.newBuilder().setPipeline("pipeline").setBatch(batch).build();
  }

  /** The name of a part. */
  public static Part part(long batch, int partition) {
    return Part.newBuilder()
        .setTransaction(transaction(batch))
        .setPartition(partition)
        .setAttempt("1/" + partition)
        .build();
  }

  /** Delivers a whole part. */
  public void deliver(long id, Part part, String... values) {
    start(id, part);
    frame(id, 0, values);
    end(id, values.length);
  }

  /** Begins a part. */
  public void start(long id, Part part) {
    send(
        SinkServiceAttachResponse.newBuilder()
            .setStartPart(StartPart.newBuilder().setId(id).setPart(part)));
  }

  /** Sends rows. */
  public void frame(long id, long first, String... values) {
    ByteBuffer lengths = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN);
    for (String value : values) {
      lengths.putInt(value.length());
    }
    Frame frame =
        Frame.newBuilder()
            .setFirstSequence(first)
            .setCount(values.length)
            .setValues(ByteString.copyFromUtf8(String.join("", values)))
            .setValueLengths(ByteString.copyFrom(lengths.flip()))
            .build();
    send(
        SinkServiceAttachResponse.newBuilder()
            .setFrame(PartFrame.newBuilder().setId(id).setFrame(frame)));
  }

  /** Ends a part. */
  public void end(long id, long rows) {
    send(
        SinkServiceAttachResponse.newBuilder()
            .setEndPart(EndPart.newBuilder().setId(id).setMessages(rows)));
  }

  /** Drops a part. */
  public void drop(long id) {
    send(SinkServiceAttachResponse.newBuilder().setDropPart(DropPart.newBuilder().setId(id)));
  }

  /** Asks for the vote. */
  public void prepare(long batch, Part... parts) {
    send(
        SinkServiceAttachResponse.newBuilder()
            .setPrepare(
                Prepare.newBuilder()
                    .setTransaction(transaction(batch))
                    .addAllParts(List.of(parts))));
  }

  /** Says that a batch is in the commit log. */
  public void commit(long batch) {
    send(
        SinkServiceAttachResponse.newBuilder()
            .setCommit(Commit.newBuilder().setTransaction(transaction(batch))));
  }

  /** Says that a batch never will be. */
  public void abort(long batch) {
    send(
        SinkServiceAttachResponse.newBuilder()
            .setAbort(Abort.newBuilder().setTransaction(transaction(batch))));
  }

  /** Asks it to reconnect. */
  public void drain(int deadlineMs) {
    send(
        SinkServiceAttachResponse.newBuilder()
            .setDrain(SinkDrain.newBuilder().setDeadlineMs(deadlineMs)));
  }

  /** Sends any message. */
  public void send(SinkServiceAttachResponse.Builder response) {
    session.send(response.build());
  }

  /** The next answer that is neither a report nor SinkBusy. */
  public SinkServiceAttachRequest answer() throws InterruptedException {
    return session.next(
        request ->
            request.getMessageCase() != MessageCase.REPORT
                && request.getMessageCase() != MessageCase.BUSY);
  }

  /** The next message of a kind. */
  public SinkServiceAttachRequest next(MessageCase kind) throws InterruptedException {
    return session.next(request -> request.getMessageCase() == kind);
  }

  /** The call itself. */
  public FakeGateway.Session<SinkServiceAttachRequest, SinkServiceAttachResponse> session() {
    return session;
  }
}
