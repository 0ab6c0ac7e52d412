package io.headrace.sdk.internal;

import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.log.Field;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Names the methods of a connector that have not returned for {@link Settings#stuck()}, and where
 * they stand, while the connector runs. A thread of its own looks at the threads that call them.
 */
public final class Calls implements AutoCloseable {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");

  /** How often it looks within the time after which a method is named. */
  private static final int LOOKS_IN_TIME = 4;

  private static final String SDK = "io.headrace.sdk.internal.";
  private static final List<String> LIBRARY = List.of("java.", "javax.", "jdk.", "sun.");

  private final String name;
  private final Reports reports;
  private final Settings settings;
  private final Set<OfThread> threads = ConcurrentHashMap.newKeySet();
  private final CountDownLatch over = new CountDownLatch(1);
  private boolean watches;

  /**
   * The calls of a connector, which begin with the first {@link #enter}.
   *
   * @param name names the connector in the log, such as {@code source orders}
   * @param reports where methods that do not return are reported
   * @param settings the settings of the connector
   */
  public Calls(String name, Reports reports, Settings settings) {
    this.name = name;
    this.reports = reports;
    this.settings = settings;
  }

  /** The calls that this thread makes until the end of the block, of the whole connector. */
  public OfThread enter() {
    return enter("");
  }

  /** As {@link #enter()}, of a stream. */
  public OfThread enter(String stream) {
    OfThread calls = new OfThread(stream);
    threads.add(calls);
    watch();
    return calls;
  }

  /** Ends the thread that looks. */
  @Override
  public void close() {
    over.countDown();
  }

  /** The calls of a thread, one after the other. */
  public final class OfThread implements AutoCloseable {
    private final String stream;
    private final Thread thread = Thread.currentThread();
    private final AtomicLong turn = new AtomicLong();
    private long seen = -1;
    private long since;
    private long dueNanos;

    private OfThread(String stream) {
      this.stream = stream;
    }

    /** A method begins or has returned. Called by this thread alone. */
    public void turn() {
      turn.lazySet(turn.getPlain() + 1);
    }

    @Override
    public void close() {
      threads.remove(this);
    }

    private void look(long now) {
      List<StackTraceElement> frames = ofConnector(thread.getStackTrace());
      if (frames.isEmpty() || turn.get() != seen) {
        seen = turn.get();
        since = now;
        dueNanos = settings.stuck().toNanos();
      } else if (now - since >= dueNanos) {
        dueNanos = 2 * (now - since);
        tell(stream, sentence(frames, now - since));
      }
    }
  }

  private synchronized void watch() {
    if (watches || over.getCount() == 0) {
      return;
    }
    watches = true;
    Thread thread =
        settings
            .threads()
            .newThread(
                () -> {
                  long pause = Math.max(settings.stuck().toNanos() / LOOKS_IN_TIME, 1_000_000);
                  try {
                    while (!over.await(pause, TimeUnit.NANOSECONDS)) {
                      threads.forEach(calls -> calls.look(System.nanoTime()));
                    }
                  } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                  }
                });
    thread.setName("headrace calls of " + name);
    thread.start();
  }

  private void tell(String stream, String sentence) {
    if (stream.isEmpty()) {
      LOG.log(Level.WARNING, "{0}: {1}", name, sentence);
    } else {
      LOG.log(Level.WARNING, "stream {0}: {1}", Field.stream(stream), sentence);
    }
    reports.error(stream, sentence);
  }

  /** The frames of the connector, the innermost first; none where it waits for the SDK. */
  static List<StackTraceElement> ofConnector(StackTraceElement[] frames) {
    List<StackTraceElement> found = new ArrayList<>();
    for (StackTraceElement frame : frames) {
      if (frame.getClassName().startsWith(SDK)) {
        break;
      }
      found.add(frame);
    }
    while (!found.isEmpty() && isOfLibrary(found.get(found.size() - 1))) {
      found.remove(found.size() - 1);
    }
    return found;
  }

  private static boolean isOfLibrary(StackTraceElement frame) {
    return LIBRARY.stream().anyMatch(frame.getClassName()::startsWith);
  }

  private static String sentence(List<StackTraceElement> frames, long nanos) {
    StackTraceElement method = frames.get(frames.size() - 1);
    StackTraceElement inner = frames.get(0);
    String waits = frames.size() == 1 ? "" : ", which waits in " + inner;
    Duration took = Duration.ofMillis(TimeUnit.NANOSECONDS.toMillis(nanos));
    return "%s.%s() has not returned for %s; it stands at %s:%d%s"
        .formatted(
            method.getClassName(),
            method.getMethodName(),
            took,
            method.getFileName(),
            method.getLineNumber(),
            waits);
  }
}
