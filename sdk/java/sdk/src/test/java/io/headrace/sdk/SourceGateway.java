package io.headrace.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.grpc.Metadata;
import io.grpc.Status;
import io.headrace.protocol.v1.Ack;
import io.headrace.protocol.v1.ConnectorState;
import io.headrace.protocol.v1.Credit;
import io.headrace.protocol.v1.Drain;
import io.headrace.protocol.v1.Frame;
import io.headrace.protocol.v1.Hello;
import io.headrace.protocol.v1.IngestRequest;
import io.headrace.protocol.v1.IngestResponse;
import io.headrace.protocol.v1.OpenStream;
import io.headrace.protocol.v1.Pace;
import io.headrace.protocol.v1.Reject;
import io.headrace.protocol.v1.RejectReason;
import io.headrace.protocol.v1.Report;
import io.headrace.protocol.v1.StreamOpened;
import io.headrace.protocol.v1.Welcome;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/** The gateway's side of one session of a source, in the steps that tests take. */
public final class SourceGateway {
  private final FakeGateway.Session<IngestRequest, IngestResponse> session;

  /** The connector's first message. */
  public final Hello hello;

  private SourceGateway(FakeGateway.Session<IngestRequest, IngestResponse> session)
      throws InterruptedException {
    this.session = session;
    this.hello = session.next().getHello();
  }

  /** Takes the next call, and answers nothing yet. */
  public static SourceGateway accept(FakeGateway gateway) throws InterruptedException {
    return new SourceGateway(gateway.source());
  }

  /** Takes the next call and welcomes it with ample credit. */
  public static SourceGateway welcome(FakeGateway gateway) throws InterruptedException {
    return accept(gateway).welcome(limits());
  }

  /** A Welcome with the limits of a real gateway. */
  public static Welcome.Builder limits() {
    return Welcome.newBuilder()
        .setProtocolVersion(1)
        .setGatewayVersion("test")
        .setSession("s1")
        .setMaxFrameBytes(4 << 20)
        .setMaxFrameMessages(65536)
        .setMaxStreams(1000)
        .setFrameOverheadBytes(512)
        .setCredit(Credit.newBuilder().setBytes(64 << 20).setMessages(1_000_000))
        .setPace(Pace.newBuilder().setLingerMs(1));
  }

  /** Welcomes it with these limits. */
  public SourceGateway welcome(Welcome.Builder limits) {
    session.send(IngestResponse.newBuilder().setWelcome(limits).build());
    return this;
  }

  /** The next request to open a stream. */
  public OpenStream awaitOpen() throws InterruptedException {
    return session.next(IngestRequest::hasOpenStream).getOpenStream();
  }

  /** Opens a stream from its first message. */
  public OpenStream open() throws InterruptedException {
    OpenStream open = awaitOpen();
    opened(StreamOpened.newBuilder().setStreamId(open.getStreamId()));
    return open;
  }

  /** Opens a stream after a sequence. */
  public OpenStream openAfter(long sequence) throws InterruptedException {
    OpenStream open = awaitOpen();
    opened(
        StreamOpened.newBuilder()
            .setStreamId(open.getStreamId())
            .setResume(position(sequence))
            .setAcknowledged(position(sequence)));
    return open;
  }

  /** Answers a request to open a stream. */
  public void opened(StreamOpened.Builder answer) {
    session.send(IngestResponse.newBuilder().setStreamOpened(answer).build());
  }

  /** The next frame. */
  public Frame frame() throws InterruptedException {
    return session.next(IngestRequest::hasFrame).getFrame();
  }

  /** The sequences of the next frames, until there are that many. */
  public List<Long> sequences(int count) throws InterruptedException {
    List<Long> sequences = new ArrayList<>();
    while (sequences.size() < count) {
      sequences.addAll(sequencesOf(frame()));
    }
    assertEquals(count, sequences.size());
    return sequences;
  }

  /** The sequences of a frame. */
  public static List<Long> sequencesOf(Frame frame) {
    ByteBuffer deltas =
        frame.getSequenceDeltas().asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    List<Long> sequences = new ArrayList<>(List.of(frame.getFirstSequence()));
    for (int at = 1; at < frame.getCount(); at++) {
      long delta = deltas.hasRemaining() ? Integer.toUnsignedLong(deltas.getInt()) : 1;
      sequences.add(sequences.get(at - 1) + delta);
    }
    return sequences;
  }

  /** The next request that is not a report. */
  public IngestRequest next() throws InterruptedException {
    return session.next(request -> !request.hasReport());
  }

  /** The next report of a state: heartbeats repeat the state before. */
  public Report report(ConnectorState state) throws InterruptedException {
    return session
        .next(request -> request.hasReport() && request.getReport().getState() == state)
        .getReport();
  }

  /** The next request of a kind. */
  public IngestRequest next(IngestRequest.MessageCase kind) throws InterruptedException {
    return session.next(request -> request.getMessageCase() == kind);
  }

  /** Acknowledges everything up to a sequence. */
  public void acknowledge(int streamId, long sequence) {
    acknowledge(streamId, position(sequence));
  }

  /** Acknowledges everything up to a position. */
  public void acknowledge(int streamId, io.headrace.protocol.v1.Position position) {
    Ack.Stream stream = Ack.Stream.newBuilder().setStreamId(streamId).setPosition(position).build();
    send(IngestResponse.newBuilder().setAck(Ack.newBuilder().addStreams(stream)));
  }

  /** Rejects a stream. */
  public void reject(int streamId, RejectReason reason) {
    send(
        IngestResponse.newBuilder()
            .setReject(
                Reject.newBuilder()
                    .setStreamId(streamId)
                    .setReason(reason)
                    .setMessage("as the test says")
                    .setRetryAfterMs(1)));
  }

  /** Grants credit. */
  public void grant(Credit.Builder credit) {
    send(IngestResponse.newBuilder().setCredit(credit));
  }

  /** Asks it to reconnect. */
  public void drain(int deadlineMs) {
    send(
        IngestResponse.newBuilder()
            .setDrain(Drain.newBuilder().setDeadlineMs(deadlineMs).setReason("test")));
  }

  /** Sends any message. */
  public void send(IngestResponse.Builder response) {
    session.send(response.build());
  }

  /** Ends the call with a status. */
  public void end(Status status) {
    session.end(status, new Metadata());
  }

  /** The call itself. */
  public FakeGateway.Session<IngestRequest, IngestResponse> session() {
    return session;
  }

  /** The reason of the connector's Goodbye. */
  public String goodbye() throws InterruptedException {
    return session.next(IngestRequest::hasGoodbye).getGoodbye().getReason();
  }

  /** A position of a replayable stream. */
  public static io.headrace.protocol.v1.Position position(long sequence) {
    return io.headrace.protocol.v1.Position.newBuilder().setSequence(sequence).build();
  }
}
