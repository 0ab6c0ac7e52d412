package io.headrace.sdk;

import com.google.protobuf.MessageLite;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerCredentials;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.headrace.protocol.v1.IngestRequest;
import io.headrace.protocol.v1.IngestResponse;
import io.headrace.protocol.v1.SinkServiceAttachRequest;
import io.headrace.protocol.v1.SinkServiceAttachResponse;
import io.headrace.sdk.internal.wire.Methods;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** A gateway that does only what a test tells it to do, over real gRPC on a free port. */
public final class FakeGateway implements AutoCloseable {
  private static final Duration DEADLINE = Duration.ofMinutes(2);

  private final BlockingQueue<Session<IngestRequest, IngestResponse>> sources =
      new LinkedBlockingQueue<>();
  private final BlockingQueue<Session<SinkServiceAttachRequest, SinkServiceAttachResponse>> sinks =
      new LinkedBlockingQueue<>();
  private final Server server;

  /** Starts it without encryption. */
  public FakeGateway() throws IOException {
    this(InsecureServerCredentials.create());
  }

  /** Starts it. */
  public FakeGateway(ServerCredentials credentials) throws IOException {
    this.server =
        Grpc.newServerBuilderForPort(0, credentials)
            .addService(
                ServerServiceDefinition.builder("headrace.protocol.v1.SourceService")
                    .addMethod(Methods.INGEST, handler(sources))
                    .build())
            .addService(
                ServerServiceDefinition.builder("headrace.protocol.v1.SinkService")
                    .addMethod(Methods.ATTACH, handler(sinks))
                    .build())
            .build()
            .start();
  }

  /** Settings of a connector that dials it, and does not wait long before it dials again. */
  public Settings settings() {
    return Settings.builder()
        .gateway("localhost:" + server.getPort())
        .firstBackoff(Duration.ofMillis(1))
        .maxBackoff(Duration.ofMillis(5))
        .partitionPoll(Duration.ofMillis(20))
        .build();
  }

  /** The next call of a source. */
  public Session<IngestRequest, IngestResponse> source() throws InterruptedException {
    return next(sources, "no source has called");
  }

  /** The next call of a sink. */
  public Session<SinkServiceAttachRequest, SinkServiceAttachResponse> sink()
      throws InterruptedException {
    return next(sinks, "no sink has called");
  }

  @Override
  public void close() throws InterruptedException {
    server.shutdownNow().awaitTermination();
  }

  private static <T> T next(BlockingQueue<T> queue, String otherwise) throws InterruptedException {
    T next = queue.poll(DEADLINE.toMillis(), TimeUnit.MILLISECONDS);
    if (next == null) {
      throw new AssertionError(otherwise);
    }
    return next;
  }

  private static <Q extends MessageLite, R> ServerCallHandler<Q, R> handler(
      BlockingQueue<Session<Q, R>> sessions) {
    return (call, headers) -> {
      Session<Q, R> session = new Session<>(call, headers);
      sessions.add(session);
      call.request(Integer.MAX_VALUE);
      return session;
    };
  }

  /** One call of a connector. */
  public static final class Session<Q extends MessageLite, R> extends ServerCall.Listener<Q> {
    private final ServerCall<Q, R> call;
    private final Metadata headers;
    private final BlockingQueue<Object> received = new LinkedBlockingQueue<>();
    private boolean started;

    private Session(ServerCall<Q, R> call, Metadata headers) {
      this.call = call;
      this.headers = headers;
    }

    /** What came with the call. */
    public Metadata headers() {
      return headers;
    }

    /** The method that was called. */
    public MethodDescriptor<Q, R> method() {
      return call.getMethodDescriptor();
    }

    /** Sends a message. */
    public synchronized void send(R message) {
      if (!started) {
        started = true;
        call.sendHeaders(new Metadata());
      }
      call.sendMessage(message);
    }

    /** Ends the call. */
    public synchronized void end(Status status, Metadata trailers) {
      call.close(status, trailers);
    }

    /** The next message of the connector. */
    @SuppressWarnings("unchecked") // only messages and ends are received
    public Q next() throws InterruptedException {
      Object next = FakeGateway.next(received, "the connector has sent nothing");
      if (next instanceof String) {
        throw new AssertionError("the connector has ended the call");
      }
      return (Q) next;
    }

    /** The next message that fits; those before it are left out. */
    public Q next(Predicate<Q> wanted) throws InterruptedException {
      Q next = next();
      while (!wanted.test(next)) {
        next = next();
      }
      return next;
    }

    /** Waits until the connector sends nothing more. */
    public void awaitEnd() throws InterruptedException {
      Object next = FakeGateway.next(received, "the connector has not ended the call");
      while (!(next instanceof String)) {
        next = FakeGateway.next(received, "the connector has not ended the call");
      }
    }

    @Override
    public void onMessage(Q message) {
      received.add(message);
    }

    @Override
    public void onHalfClose() {
      received.add("half-closed");
      try {
        end(Status.OK, new Metadata());
      } catch (IllegalStateException error) {
        received.add("ended before");
      }
    }

    @Override
    public void onCancel() {
      received.add("cancelled");
    }
  }
}
