package io.headrace.sdk.internal.source;

import io.headrace.protocol.v1.Ack;
import io.headrace.protocol.v1.Credit;
import io.headrace.protocol.v1.Drain;
import io.headrace.protocol.v1.Goodbye;
import io.headrace.protocol.v1.IngestRequest;
import io.headrace.protocol.v1.IngestResponse;
import io.headrace.protocol.v1.OpenStream;
import io.headrace.protocol.v1.PositionLost;
import io.headrace.protocol.v1.Reject;
import io.headrace.protocol.v1.RejectReason;
import io.headrace.protocol.v1.SourceKind;
import io.headrace.protocol.v1.Starts;
import io.headrace.protocol.v1.StreamOpened;
import io.headrace.protocol.v1.Welcome;
import io.headrace.sdk.ConnectorFailedException;
import io.headrace.sdk.GatewayRefusedException;
import io.headrace.sdk.HeadraceException;
import io.headrace.sdk.InvalidConnectorException;
import io.headrace.sdk.Position;
import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.Ending;
import io.headrace.sdk.internal.Names;
import io.headrace.sdk.internal.Reports;
import io.headrace.sdk.internal.log.Field;
import io.headrace.sdk.internal.wire.Call;
import io.headrace.sdk.internal.wire.Endings;
import io.headrace.sdk.internal.wire.Signal;
import io.headrace.sdk.source.PositionLostException;
import io.headrace.sdk.source.Progress;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;

/** One session of a source, from Welcome to its end, on one thread. */
public final class SourceSession {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");

  /** The largest cursor at a gateway that announces none. */
  private static final int UNANNOUNCED_CURSOR_BYTES = 4096;

  private static final Duration OWNED_RETRY = Duration.ofSeconds(1);
  private static final Duration FIRST_LOST_RETRY = Duration.ofMillis(500);
  private static final Duration MAX_LOST_RETRY = Duration.ofSeconds(30);
  private static final Duration TURN = Duration.ofMillis(50);
  private static final Duration GOODBYE = Duration.ofSeconds(1);
  private static final long FAR = Duration.ofHours(1).toNanos();

  private final SourceDriver driver;
  private final Settings settings;
  private final Welcome welcome;
  private final Call<IngestRequest, IngestResponse> call;
  private final Signal signal;
  private final BooleanSupplier stopping;
  private final Reports reports;
  private final SourceSender sender;
  private final Repeats repeats;
  private final Map<Integer, Stream> streams = new HashMap<>();
  private final Map<String, Stream> current = new LinkedHashMap<>();
  private final Queue<Stream> changed = new ConcurrentLinkedQueue<>();
  private final List<Reopening> reopening = new ArrayList<>();
  private final List<Stream> closing = new ArrayList<>();
  private final Set<String> ended = new HashSet<>();
  private final Set<String> closedForNow = new HashSet<>();
  private final Set<String> gone = new HashSet<>();
  private final Map<String, Integer> lostInARow = new HashMap<>();
  private volatile long lingerNanos;
  private Future<List<String>> partitions;
  private Set<String> askedStarts = Set.of();
  private Future<Map<String, Position>> starts;
  private boolean startsWanted;
  private boolean anyEnded;
  private boolean allEndedWhenAsked;
  private long nextPoll = System.nanoTime();
  private int nextId = 1;
  private Ending leaving;
  private HeadraceException failure;
  private boolean flushing;
  private long leaveBy;

  /** A stream that is opened again, under a new id, once its reader is closed. */
  private record Reopening(Stream stream, long at) {}

  /**
   * Takes over a call after Welcome.
   *
   * @param stopping whether the connector is to stop; the signal is raised when that changes
   */
  public SourceSession(
      SourceDriver driver,
      Settings settings,
      Welcome welcome,
      Call<IngestRequest, IngestResponse> call,
      Signal signal,
      BooleanSupplier stopping,
      Reports reports) {
    this.driver = driver;
    this.settings = settings;
    this.welcome = welcome;
    this.call = call;
    this.signal = signal;
    this.stopping = stopping;
    this.reports = reports;
    this.repeats = new Repeats(reports);
    this.sender = new SourceSender(welcome, settings.metrics(), this::sent);
    this.lingerNanos =
        welcome.hasPace()
            ? Duration.ofMillis(welcome.getPace().getLingerMs()).toNanos()
            : settings.linger().toNanos();
  }

  /**
   * Serves the session until it ends; no reader runs afterwards.
   *
   * @return how it ended
   * @throws HeadraceException if the source failed, or the call has ended
   * @throws InterruptedException if the connector's thread was interrupted
   */
  public Ending run() throws InterruptedException {
    try {
      while (!isOver()) {
        receive();
        if (stopping.getAsBoolean()) {
          leave(Ending.STOPPED, null, settings.drain().toNanos(), true);
        }
        look();
        send();
        if (!isOver()) {
          signal.await(nextLook());
        }
      }
      sayGoodbye();
    } finally {
      close();
    }
    if (failure != null) {
      throw failure;
    }
    return leaving;
  }

  // What the gateway sends

  private void receive() {
    IngestResponse response;
    while ((response = call.poll()) != null) {
      switch (response.getMessageCase()) {
        case ACK -> acknowledge(response.getAck());
        case CREDIT -> grant(response.getCredit());
        case STREAM_OPENED -> opened(response.getStreamOpened());
        case REJECT -> rejected(response.getReject());
        case STARTS_WANTED -> startsWanted = true;
        case PACE -> lingerNanos = Duration.ofMillis(response.getPace().getLingerMs()).toNanos();
        case DRAIN -> drain(response.getDrain());
        default -> LOG.log(Level.DEBUG, "a message that this version does not know is ignored");
      }
    }
    if (call.hasEnded()) {
      throw failure != null
          ? failure
          : Endings.of(settings.gateway(), call.status(), call.trailers());
    }
  }

  private void acknowledge(Ack ack) {
    for (Ack.Stream position : ack.getStreamsList()) {
      Stream stream = streams.get(position.getStreamId());
      Position news = stream == null ? null : stream.acknowledge(position);
      if (news != null) {
        driver.starts().acknowledged(stream.partition, news);
        settings.metrics().acknowledged(stream.name, news);
        forgetIfFinished(stream);
      }
    }
    sender.setNothingOutstanding(!anyUnacknowledged());
    if (ack.hasCredit()) {
      sender.grant(ack.getCredit());
    }
  }

  private void grant(Credit credit) {
    Stream stream = credit.hasStreamId() ? streams.get(credit.getStreamId()) : null;
    if (stream == null) {
      sender.grant(credit);
    } else {
      sender.grant(stream, credit);
    }
  }

  private void opened(StreamOpened answer) {
    Stream stream = streams.get(answer.getStreamId());
    if (stream == null || stream.isMuted() || stream.isReading() || leaving != null) {
      return;
    }
    Optional<Position> resume = stream.opened(answer);
    if (answer.hasAcknowledged()) {
      driver
          .starts()
          .acknowledged(stream.partition, Position.of(answer.getAcknowledged().getSequence()));
    }
    Optional<Position> from = answer.getSkipLost() ? Optional.empty() : resume;
    if (driver.kind() == SourceKind.SOURCE_KIND_REPLAYABLE) {
      stream.gave(from);
    }
    LOG.log(
        Level.INFO,
        "stream {0}: reading {1}",
        Field.stream(stream.name),
        answer.hasEarlier()
            ? "what is not acknowledged"
            : from.map(position -> "after " + position.sequence()).orElse("from the start"));
    reports.recovered(stream.name);
    StreamLimits limits =
        new StreamLimits(
            stream.name,
            stream.id,
            welcome.getMaxFrameBytes(),
            maxCursorBytes(),
            Math.min(settings.frameBytes(), welcome.getMaxFrameBytes()),
            Math.min(settings.frameMessages(), welcome.getMaxFrameMessages()));
    PartitionTask task =
        new PartitionTask(
            driver.opener(),
            driver.watched(),
            stream.partition,
            from,
            limits,
            () -> lingerNanos,
            driver.source().idleWait().toNanos(),
            stream.handoff);
    Thread thread = settings.threads().newThread(task);
    thread.setName("headrace " + stream.name);
    thread.start();
  }

  private void rejected(Reject reject) {
    Stream stream = streams.get(reject.getStreamId());
    if (stream == null || stream.isMuted()) {
      return;
    }
    Duration retry = Duration.ofMillis(reject.getRetryAfterMs());
    if (reject.getReason() == RejectReason.REJECT_REASON_REOPEN) {
      LOG.log(Level.INFO, "stream {0}: {1}", Field.stream(stream.name), reject.getMessage());
      reopen(stream, retry);
    } else if (reject.getReason() == RejectReason.REJECT_REASON_OWNED) {
      LOG.log(
          Level.WARNING,
          "stream {0}: {1}; trying again",
          Field.stream(stream.name),
          reject.getMessage());
      reports.failing(stream.name, reject.getMessage());
      reopen(stream, retry.isZero() ? OWNED_RETRY : retry);
    } else {
      stream.mute();
      String text = "stream %s: %s".formatted(stream.name, reject.getMessage());
      fail(new GatewayRefusedException(text, "PERMISSION_DENIED", "NOT_PERMITTED"));
    }
  }

  private void drain(Drain drain) {
    LOG.log(Level.INFO, "the gateway asks to reconnect: {0}", drain.getReason());
    // A share of the deadline, so that the last acknowledgements and Goodbye cross in time.
    leave(Ending.DRAINED, null, Duration.ofMillis(drain.getDeadlineMs()).toNanos() / 10 * 9, false);
  }

  // What has changed here

  private void look() {
    lookAtPartitions();
    lookAtStarts();
    for (Stream stream; (stream = changed.poll()) != null; ) {
      stream.changed.set(false);
      lookAt(stream);
    }
    Iterator<Reopening> due = reopening.iterator();
    while (due.hasNext()) {
      Reopening next = due.next();
      if (leaving == null && next.stream.handoff.isClosed() && System.nanoTime() - next.at >= 0) {
        due.remove();
        open(next.stream.partition);
      }
    }
    closing.removeIf(stream -> stream.handoff.isClosed());
  }

  private void lookAt(Stream stream) {
    Throwable error = stream.handoff.failure();
    if (error != null && !stream.isMuted() && !stream.hasUnsent()) {
      if (error instanceof PositionLostException lost) {
        positionLost(stream, lost);
      } else {
        fail((HeadraceException) error);
      }
    }
    stream.reportDue = true;
    sender.makeDue(stream);
  }

  private void positionLost(Stream stream, PositionLostException lost) {
    LOG.log(
        Level.WARNING,
        "stream {0}: position lost: {1}",
        Field.stream(stream.name),
        lost.getMessage());
    reports.failing(stream.name, "position lost: " + lost.getMessage());
    PositionLost.Builder message =
        PositionLost.newBuilder()
            .setStreamId(stream.id)
            .setReason(String.valueOf(lost.getMessage()));
    lost.earliest().ifPresent(message::setEarliestSequence);
    sender.say(IngestRequest.newBuilder().setPositionLost(message));
    int times = lostInARow.merge(stream.partition, 1, Integer::sum);
    Duration wait =
        times == 1 ? Duration.ZERO : FIRST_LOST_RETRY.multipliedBy(1L << Math.min(times - 2, 10));
    reopen(stream, wait.compareTo(MAX_LOST_RETRY) > 0 ? MAX_LOST_RETRY : wait);
  }

  private void sent(Stream stream) {
    repeats.look(stream);
    if (stream.hasUnacknowledged()) {
      lostInARow.remove(stream.partition);
    }
    forgetIfFinished(stream);
    if (stream.handoff.failure() != null) {
      tellChanged(stream);
    }
  }

  // Partitions

  private void lookAtPartitions() {
    if (leaving != null) {
      return;
    }
    if (partitions == null) {
      if (System.nanoTime() - nextPoll >= 0) {
        allEndedWhenAsked = allEnded();
        partitions = driver.partitions(signal::raise);
      }
      return;
    }
    if (!partitions.isDone()) {
      return;
    }
    List<String> listed = answer(partitions);
    partitions = null;
    nextPoll = System.nanoTime() + settings.partitionPoll().toNanos();
    if (listed != null) {
      openNew(listed);
    }
  }

  private void openNew(List<String> listed) {
    try {
      checkPartitions(listed);
    } catch (InvalidConnectorException error) {
      fail(error);
      return;
    }
    if (driver.choosesStart()) {
      driver.starts().listed(listed);
    }
    // A partition that is gone and not listed is forgotten; if it is listed later, it is a new one.
    Set<String> forgotten = new HashSet<>(gone);
    listed.forEach(forgotten::remove);
    gone.removeAll(forgotten);
    ended.removeAll(forgotten);
    int fresh = 0;
    for (String partition : listed) {
      if (!current.containsKey(partition) && !ended.contains(partition)) {
        fresh++;
        if (current.size() < welcome.getMaxStreams()) {
          open(partition);
        }
      }
    }
    if (allEndedWhenAsked && fresh == 0 && allEnded()) {
      leave(Ending.SOURCE_ENDED, null, 0, false);
    }
  }

  private void checkPartitions(List<String> listed) {
    Set<String> seen = new HashSet<>();
    for (String partition : listed) {
      Names.stream(driver.name(), partition);
      if (!seen.add(partition)) {
        throw new InvalidConnectorException(
            "source %s: partitions() lists \"%s\" twice".formatted(driver.name(), partition));
      }
    }
    seen.removeAll(ended);
    if (seen.size() > welcome.getMaxStreams() && !driver.source().takesTurns()) {
      throw new InvalidConnectorException(
          "source %s has %d partitions, but the gateway limits a session to %d: split them over several instances"
              .formatted(driver.name(), seen.size(), welcome.getMaxStreams()));
    }
  }

  private void open(String partition) {
    closedForNow.remove(partition);
    int id = nextId++;
    Stream[] opened = new Stream[1];
    Handoff handoff = new Handoff(() -> tellChanged(opened[0]));
    Stream stream = new Stream(id, partition, Names.stream(driver.name(), partition), handoff);
    opened[0] = stream;
    streams.put(id, stream);
    current.put(partition, stream);
    sender.say(
        IngestRequest.newBuilder()
            .setOpenStream(
                OpenStream.newBuilder()
                    .setStreamId(id)
                    .setStream(stream.name)
                    .setKind(driver.kind())
                    .setChoosesStart(driver.choosesStart())));
  }

  /** Has the session look at a stream; called on any thread. */
  private void tellChanged(Stream stream) {
    if (stream.changed.compareAndSet(false, true)) {
      changed.add(stream);
      signal.raise();
    }
  }

  private void reopen(Stream stream, Duration delay) {
    stream.retire();
    streams.remove(stream.id);
    closeReader(stream);
    reopening.add(new Reopening(stream, System.nanoTime() + delay.toNanos()));
  }

  private void closeReader(Stream stream) {
    if (!stream.isReading()) {
      stream.handoff.close();
      return;
    }
    stream.handoff.stop();
    closing.add(stream);
  }

  private void forgetIfFinished(Stream stream) {
    if (leaving != null || !stream.isFinished() || streams.remove(stream.id) == null) {
      return;
    }
    current.remove(stream.partition);
    if (stream.closed() == Progress.CLOSE) {
      closedForNow.add(stream.partition);
    } else {
      ended.add(stream.partition);
      // Where partitions come and go, others may follow.
      if (stream.closed() == Progress.GONE) {
        gone.add(stream.partition);
      } else {
        anyEnded = true;
      }
    }
    closeReader(stream);
    if (driver.source().takesTurns()) {
      nextPoll = System.nanoTime() + TURN.toNanos();
    }
    if (allEnded()) {
      nextPoll = System.nanoTime();
    }
  }

  private boolean allEnded() {
    return anyEnded && current.isEmpty() && closedForNow.isEmpty();
  }

  private boolean anyUnacknowledged() {
    return streams.values().stream().anyMatch(Stream::hasUnacknowledged);
  }

  private int maxCursorBytes() {
    int announced = welcome.getMaxCursorBytes();
    return announced > 0 ? announced : UNANNOUNCED_CURSOR_BYTES;
  }

  // Starts

  private void lookAtStarts() {
    if (leaving != null || !startsWanted) {
      return;
    }
    if (starts == null) {
      askedStarts = driver.starts().unknown(current.keySet());
      if (!askedStarts.isEmpty()) {
        starts = driver.starts(askedStarts, signal::raise);
        return;
      }
    } else {
      if (!starts.isDone()) {
        return;
      }
      Map<String, Position> answer = answer(starts);
      starts = null;
      if (answer == null) {
        return;
      }
      try {
        driver.starts().answered(askedStarts, answer, maxCursorBytes());
      } catch (InvalidConnectorException error) {
        fail(error);
        return;
      }
      if (!driver.starts().unknown(current.keySet()).isEmpty()) {
        return; // Others have been opened meanwhile: ask for them as well.
      }
    }
    startsWanted = false;
    Starts.Builder message = Starts.newBuilder();
    for (Stream stream : current.values()) {
      Starts.Stream.Builder start = Starts.Stream.newBuilder().setStreamId(stream.id);
      driver
          .starts()
          .of(stream.partition)
          .ifPresent(
              position -> {
                io.headrace.protocol.v1.Position.Builder wire =
                    io.headrace.protocol.v1.Position.newBuilder().setSequence(position.sequence());
                position
                    .cursor()
                    .ifPresent(
                        cursor -> wire.setCursor(com.google.protobuf.ByteString.copyFrom(cursor)));
                start.setPosition(wire);
              });
      message.addStreams(start);
    }
    sender.say(IngestRequest.newBuilder().setStarts(message));
  }

  private <T> T answer(Future<T> future) {
    try {
      return future.get();
    } catch (ExecutionException error) {
      Throwable cause = error.getCause();
      fail(
          cause instanceof HeadraceException known
              ? known
              : new ConnectorFailedException("source " + driver.name() + ": " + cause, cause));
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
    return null;
  }

  // Sending

  private void send() {
    while (call.isReady()) {
      io.headrace.protocol.v1.Report report = reports.next();
      if (report != null) {
        call.send(IngestRequest.newBuilder().setReport(report).build());
      }
      IngestRequest request = sender.joined();
      if (request == null) {
        return;
      }
      call.send(request);
    }
  }

  private long nextLook() {
    long next = System.nanoTime() + FAR;
    if (leaving != null) {
      next = earlier(next, leaveBy);
    } else if (partitions == null) {
      next = earlier(next, nextPoll);
    }
    for (Reopening stream : reopening) {
      if (stream.stream.handoff.isClosed()) {
        next = earlier(next, stream.at);
      }
    }
    return reports.nextLook(sender.nextLook(next));
  }

  private static long earlier(long first, long second) {
    return first - second < 0 ? first : second;
  }

  // The end

  private void fail(HeadraceException error) {
    leave(Ending.STOPPED, error, settings.drain().toNanos(), true);
  }

  /** Reads no more; ends the session once all is acknowledged, or after a while. */
  private void leave(Ending why, HeadraceException error, long nanos, boolean flush) {
    if (leaving != null) {
      return;
    }
    leaving = why;
    failure = error;
    flushing = flush;
    leaveBy = System.nanoTime() + nanos;
    if (error != null) {
      LOG.log(
          Level.WARNING,
          "stopping, once what was read is acknowledged: {0}",
          Field.error(error.getMessage()));
    }
    streams.values().stream().filter(Stream::isReading).forEach(stream -> stream.handoff.pause());
    if (!flush) {
      sender.mute();
    }
  }

  private boolean isOver() {
    if (leaving == null) {
      return false;
    }
    if (System.nanoTime() - leaveBy >= 0) {
      if (leaving != Ending.SOURCE_ENDED) {
        List<String> waiting =
            streams.values().stream()
                .filter(stream -> stream.hasUnsent() || stream.hasUnacknowledged())
                .map(stream -> stream.name)
                .limit(10)
                .toList();
        LOG.log(Level.INFO, "not acknowledged in time, to be sent again: {0}", waiting);
      }
      return true;
    }
    return streams.values().stream().allMatch(this::hasLeft);
  }

  private boolean hasLeft(Stream stream) {
    if (stream.hasUnacknowledged()) {
      return false;
    }
    return !flushing
        || stream.isMuted()
        || !stream.isReading()
        || (!stream.hasUnsent() && stream.handoff.isQuiet());
  }

  private void sayGoodbye() throws InterruptedException {
    String reason = failure == null ? leaving.goodbye() : String.valueOf(failure.getMessage());
    Goodbye goodbye =
        Goodbye.newBuilder().setReason(reason.substring(0, Math.min(500, reason.length()))).build();
    IngestRequest following = sender.takeFollowing();
    if (following != null) {
      call.send(following);
    }
    call.send(IngestRequest.newBuilder().setGoodbye(goodbye).build());
    call.halfClose();
    // The gateway ends the call; cancelling it could overtake what was just sent.
    long deadline = System.nanoTime() + GOODBYE.toNanos();
    while (!call.hasEnded() && System.nanoTime() - deadline < 0) {
      IngestResponse response = call.poll();
      if (response == null) {
        signal.await(deadline);
      } else if (response.hasAck()) {
        acknowledge(response.getAck());
      }
    }
  }

  /** Stops every reader, and waits until it is closed. */
  private void close() throws InterruptedException {
    call.cancel();
    for (Stream stream : streams.values()) {
      stream.mute();
      if (stream.isReading()) {
        stream.handoff.stop();
        closing.add(stream);
      }
    }
    for (Reopening next : reopening) {
      closing.add(next.stream);
    }
    for (Stream stream : closing) {
      while (!stream.handoff.awaitClosed(settings.stuck().toNanos())) {
        LOG.log(
            Level.WARNING,
            "stream {0}: its reader has not returned for {1}: it must return Progress.IDLE when there is nothing",
            Field.stream(stream.name),
            settings.stuck());
        if (stopping.getAsBoolean() || failure != null) {
          driver.abandon(stream.handoff);
          break;
        }
      }
    }
  }
}
