package io.headrace.sdk.internal.source;

import io.headrace.protocol.v1.SourceKind;
import io.headrace.sdk.ConnectorFailedException;
import io.headrace.sdk.HeadraceException;
import io.headrace.sdk.InvalidConnectorException;
import io.headrace.sdk.Position;
import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.Calls;
import io.headrace.sdk.internal.Closing;
import io.headrace.sdk.internal.Names;
import io.headrace.sdk.source.RedeliveringSource;
import io.headrace.sdk.source.ReplayableSource;
import io.headrace.sdk.source.ResumableSource;
import io.headrace.sdk.source.Source;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** A source, checked, and the thread on which its own methods are called. */
public final class SourceDriver implements AutoCloseable {
  private final Source source;
  private final String name;
  private final Settings settings;
  private final KnownStarts starts = new KnownStarts();
  private final List<Handoff> abandoned = new ArrayList<>();
  private final ExecutorService calls;
  private final Calls watched;

  /**
   * Checks the source.
   *
   * @throws InvalidConnectorException if its name is not allowed
   */
  public SourceDriver(Source source, Settings settings, Calls watched) {
    this.source = source;
    this.watched = watched;
    this.settings = settings;
    this.name = source.name();
    Names.stream(name, "0");
    this.calls =
        Executors.newSingleThreadExecutor(
            task -> {
              Thread thread = settings.threads().newThread(task);
              thread.setName("headrace " + name + " partitions");
              return thread;
            });
  }

  /** The source. */
  public Source source() {
    return source;
  }

  String name() {
    return name;
  }

  /** The calls of its methods. */
  Calls watched() {
    return watched;
  }

  KnownStarts starts() {
    return starts;
  }

  SourceKind kind() {
    if (source instanceof ReplayableSource) {
      return SourceKind.SOURCE_KIND_REPLAYABLE;
    }
    return source instanceof ResumableSource
        ? SourceKind.SOURCE_KIND_RESUMABLE
        : SourceKind.SOURCE_KIND_REDELIVERING;
  }

  boolean choosesStart() {
    return source instanceof ReplayableSource replayable && replayable.choosesStart();
  }

  /** How its readers are opened. */
  Reading.Opener opener() {
    if (source instanceof ReplayableSource replayable) {
      return (partition, position) -> new Reading.Positioned(replayable.open(partition, position));
    }
    if (source instanceof ResumableSource resumable) {
      return (partition, position) -> new Reading.Positioned(resumable.open(partition, position));
    }
    return opener((RedeliveringSource<?>) source);
  }

  private static <T> Reading.Opener opener(RedeliveringSource<T> source) {
    return (partition, position) -> new Reading.Redelivering<>(source.open(partition, position));
  }

  /** Asks for the partitions; `done` is run once there is an answer. */
  Future<List<String>> partitions(Runnable done) {
    return call("partitions()", () -> List.copyOf(source.partitions()), done);
  }

  /** Asks where partitions begin; `done` is run once there is an answer. */
  Future<Map<String, Position>> starts(Set<String> partitions, Runnable done) {
    ReplayableSource replayable = (ReplayableSource) source;
    return call("starts()", () -> Map.copyOf(replayable.starts(partitions)), done);
  }

  /** Leaves a reader whose source has not returned; the source is not closed before it has. */
  void abandon(Handoff reader) {
    abandoned.add(reader);
  }

  /** Closes the source. */
  @Override
  public void close() {
    calls.shutdownNow();
    try {
      Closing.call(
          "source " + name, settings.closeTimeout(), settings.threads(), this::idle, source::close);
    } finally {
      watched.close();
    }
  }

  /** Waits until no method of the source runs. */
  private boolean idle(long nanos) throws InterruptedException {
    long deadline = System.nanoTime() + nanos;
    for (Handoff reader : abandoned) {
      if (!reader.awaitClosed(deadline - System.nanoTime())) {
        return false;
      }
    }
    return calls.awaitTermination(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
  }

  private <T> Future<T> call(String what, Callable<T> method, Runnable done) {
    CompletableFuture<T> answer = new CompletableFuture<>();
    calls.execute(
        () -> {
          try (var ignored = watched.enter()) {
            answer.complete(method.call());
          } catch (HeadraceException error) {
            answer.completeExceptionally(error);
          } catch (Throwable error) { // whatever it is, the session must learn of it
            answer.completeExceptionally(
                new ConnectorFailedException(
                    "source %s: %s threw %s".formatted(name, what, error), error));
          }
          done.run();
        });
    return answer;
  }
}
