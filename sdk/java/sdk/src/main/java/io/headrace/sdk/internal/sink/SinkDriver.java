package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.Capability;
import io.headrace.protocol.v1.SinkHello;
import io.headrace.protocol.v1.SinkMode;
import io.headrace.sdk.InvalidConnectorException;
import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.Calls;
import io.headrace.sdk.internal.Closing;
import io.headrace.sdk.internal.Names;
import io.headrace.sdk.internal.Sdk;
import io.headrace.sdk.internal.TemporaryFailure;
import io.headrace.sdk.sink.IdempotentSink;
import io.headrace.sdk.sink.Recovered;
import io.headrace.sdk.sink.Sink;
import io.headrace.sdk.sink.Transaction;
import io.headrace.sdk.sink.TwoPhaseSink;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.locks.ReentrantLock;

/** A sink, checked, and the lock by which its methods take turns. */
final class SinkDriver {
  private final Sink sink;
  private final String name;
  private final Settings settings;
  private final Calls watched;
  private final ReentrantLock turn = new ReentrantLock(true);
  private final Set<String> seen = new ConcurrentSkipListSet<>();
  private final List<SinkHandler> abandoned = new ArrayList<>();

  /** A call of a method of the sink. */
  interface Method<T> {
    T call() throws Exception;
  }

  /** A call of a method of the sink that returns nothing. */
  interface Step {
    void run() throws Exception;
  }

  /**
   * Checks the sink.
   *
   * @throws InvalidConnectorException if its name is not allowed
   */
  SinkDriver(Sink sink, Settings settings, Calls watched) {
    this.sink = sink;
    this.watched = watched;
    this.settings = settings;
    this.name = sink.name();
    Names.check("the name of the sink", name);
  }

  Sink sink() {
    return sink;
  }

  String name() {
    return name;
  }

  /** The calls of its methods. */
  Calls watched() {
    return watched;
  }

  /** Calls a method of the sink, after all earlier calls have returned. */
  <T> T call(Method<T> method) throws Exception {
    turn.lock();
    try (var ignored = watched.enter()) {
      return method.call();
    } finally {
      turn.unlock();
    }
  }

  /** As {@link #call}, for a method that returns nothing. */
  void run(Step method) throws Exception {
    call(
        () -> {
          method.run();
          return null;
        });
  }

  /** Leaves a session whose sink has not returned; the sink is not closed before it has. */
  void abandon(SinkHandler handler) {
    abandoned.add(handler);
  }

  /** Closes the sink. */
  void close() {
    try {
      Closing.call(
          "sink " + name, settings.closeTimeout(), settings.threads(), this::idle, sink::close);
    } finally {
      watched.close();
    }
  }

  /** Waits until no method of the sink runs. */
  private boolean idle(long nanos) throws InterruptedException {
    long deadline = System.nanoTime() + nanos;
    for (SinkHandler handler : abandoned) {
      if (!handler.awaitClosed(deadline - System.nanoTime())) {
        return false;
      }
    }
    return true;
  }

  /** Remembers a pipeline, so that the next session reports its last batch. */
  void saw(String pipeline) {
    seen.add(pipeline);
  }

  /**
   * The Hello of a session, with what the sink has stored.
   *
   * @throws TemporaryFailure if the sink could not say what it has stored
   */
  SinkHello hello(String instance) {
    Recovered recovered;
    try {
      recovered = call(this::recovered);
    } catch (Exception error) {
      throw new TemporaryFailure(
          "sink %s could not report what it has stored: %s"
              .formatted(name, Answers.describe(error)),
          error);
    }
    return SinkHello.newBuilder()
        .setProtocolVersion(Sdk.PROTOCOL_VERSION)
        .setConnector(sink.connector())
        .setConnectorVersion(sink.version())
        .setSink(name)
        .setInstance(instance)
        .setMode(mode())
        .addAllStaged(recovered.staged().stream().map(Wire::part).toList())
        .addAllPrepared(recovered.prepared().stream().map(Wire::transaction).toList())
        .addAllCommitted(recovered.committed().stream().map(Wire::transaction).toList())
        .addCapabilities(Capability.CAPABILITY_HEARTBEAT)
        .setSdk(Sdk.SELF)
        .build();
  }

  private Recovered recovered() throws Exception {
    if (sink instanceof TwoPhaseSink twoPhase) {
      return twoPhase.recover();
    }
    List<Transaction> last = new ArrayList<>();
    if (sink instanceof IdempotentSink idempotent) {
      Set<String> pipelines = new TreeSet<>(idempotent.pipelines());
      pipelines.addAll(seen);
      for (String pipeline : pipelines) {
        OptionalLong batch = idempotent.last(pipeline);
        if (batch.isPresent()) {
          last.add(new Transaction(pipeline, batch.getAsLong()));
        }
      }
    }
    return new Recovered(List.of(), List.of(), last);
  }

  private SinkMode mode() {
    if (sink instanceof TwoPhaseSink) {
      return SinkMode.SINK_MODE_TWO_PHASE;
    }
    return sink instanceof IdempotentSink
        ? SinkMode.SINK_MODE_BATCH_IDEMPOTENT
        : SinkMode.SINK_MODE_AT_LEAST_ONCE;
  }
}
