package io.headrace.sdk.internal.wire;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.headrace.sdk.GatewayUnavailableException;
import io.headrace.sdk.SessionEndedException;
import io.headrace.sdk.Settings;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.function.BooleanSupplier;

/**
 * A bidirectional call. What arrives waits in a bounded queue until it is polled: gRPC asks the
 * gateway for no more meanwhile.
 *
 * @param <Q> what the connector sends
 * @param <R> what the gateway sends
 */
public final class Call<Q, R> {
  /** How many messages may wait. */
  private static final int CAPACITY = 16;

  private final ClientCall<Q, R> call;
  private final Signal signal;
  private final Mutex lock = new Mutex();
  private final Queue<R> arrived = new ArrayDeque<>(CAPACITY);
  private volatile Status status;
  private volatile Metadata trailers;

  /**
   * Starts the call.
   *
   * @param channel the channel to the gateway
   * @param method the call to make
   * @param headers sent with it
   * @param signal raised when something arrives, when more can be sent, and when the call has ended
   */
  public Call(Channel channel, MethodDescriptor<Q, R> method, Metadata headers, Signal signal) {
    this.signal = signal;
    this.call = channel.newCall(method, CallOptions.DEFAULT);
    call.start(new Listener(), headers);
    call.request(CAPACITY);
  }

  /** Whether gRPC takes another message without keeping it for long. */
  public boolean isReady() {
    return call.isReady();
  }

  /** Sends a message. Not for several threads at a time. */
  public void send(Q message) {
    call.sendMessage(message);
  }

  /** Ends the connector's side: nothing more is sent. */
  public void halfClose() {
    call.halfClose();
  }

  /** Ends the call at once, unless it has ended. */
  public void cancel() {
    call.cancel("the connector has left the session", null);
  }

  /** The next message that has arrived; null if there is none. The gateway may send another one. */
  public R poll() {
    R message;
    try (var ignored = lock.hold()) {
      message = arrived.poll();
    }
    if (message != null) {
      call.request(1);
    }
    return message;
  }

  /**
   * Waits for the gateway's answer to the first message.
   *
   * @param settings say how long to wait
   * @param stopping whether the connector is to stop; the signal is raised when that changes
   * @return the answer; null if the connector is to stop
   * @throws SessionEndedException if the call has ended, or there is no answer in time
   */
  public R awaitFirst(Settings settings, BooleanSupplier stopping) throws InterruptedException {
    long deadline = System.nanoTime() + settings.welcome().toNanos();
    while (!stopping.getAsBoolean()) {
      R answer = poll();
      if (answer != null) {
        return answer;
      }
      if (hasEnded()) {
        throw Endings.of(settings.gateway(), status, trailers);
      }
      if (System.nanoTime() - deadline >= 0) {
        throw new GatewayUnavailableException(
            "gateway %s: no answer within %s".formatted(settings.gateway(), settings.welcome()),
            Status.Code.DEADLINE_EXCEEDED.name(),
            "");
      }
      signal.await(deadline);
    }
    return null;
  }

  /** Whether the call has ended and everything that arrived before was polled. */
  public boolean hasEnded() {
    if (status == null) {
      return false;
    }
    try (var ignored = lock.hold()) {
      return arrived.isEmpty();
    }
  }

  /** The status of a call that has ended. */
  public Status status() {
    return status;
  }

  /** What came with the status. */
  public Metadata trailers() {
    return trailers;
  }

  private final class Listener extends ClientCall.Listener<R> {
    @Override
    public void onMessage(R message) {
      try (var ignored = lock.hold()) {
        arrived.add(message);
      }
      signal.raise();
    }

    @Override
    public void onReady() {
      signal.raise();
    }

    @Override
    public void onClose(Status ended, Metadata last) {
      trailers = last;
      status = ended;
      signal.raise();
    }
  }
}
