package io.headrace.sdk.internal.source;

import com.google.protobuf.ByteString;
import io.headrace.protocol.v1.Ack;
import io.headrace.protocol.v1.Backlog;
import io.headrace.protocol.v1.CloseStream;
import io.headrace.protocol.v1.CreditRequest;
import io.headrace.protocol.v1.Frame;
import io.headrace.protocol.v1.StreamOpened;
import io.headrace.sdk.Position;
import io.headrace.sdk.internal.wire.Columns;
import io.headrace.sdk.internal.wire.Frames;
import io.headrace.sdk.source.Progress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A stream that was opened under one id: what is next to send, what is outstanding, what was
 * acknowledged. Used by the session's thread.
 */
final class Stream {
  final int id;
  final String partition;
  final String name;
  final Handoff handoff;

  /** Whether the session has to look at it. */
  final AtomicBoolean changed = new AtomicBoolean();

  /** Whether it waits for its turn to send. */
  boolean due;

  /** Whether what is left may be news. */
  boolean reportDue;

  /** Whether a request for credit stands: since its last frame. */
  boolean askedForCredit;

  private Progress closed;
  private boolean reading;
  private boolean muted;
  private long epoch;
  private Columns columns;
  private int at;
  private long lentBytes;
  private long lentMessages;
  private long resume = -1;
  private long floor = -1;
  private long again;
  private long lastSent = -1;
  private long acknowledged = -1;
  private long acknowledgedMoves;
  private final ArrayDeque<Token> tokens = new ArrayDeque<>();
  private Backlog reported;

  /** What acknowledges a message that was sent. */
  private record Token(long sequence, Object token) {}

  Stream(int id, String partition, String name, Handoff handoff) {
    this.id = id;
    this.partition = partition;
    this.name = name;
    this.handoff = handoff;
  }

  /** Takes the gateway's answer; returns where to resume, or the earlier position of a queue. */
  Optional<Position> opened(StreamOpened answer) {
    reading = true;
    epoch = answer.getEpoch();
    Optional<Position> from =
        answer.hasResume() && answer.getResume().getEpoch() == epoch
            ? Optional.of(position(answer.getResume()))
            : Optional.empty();
    from.ifPresent(position -> resume = position.sequence());
    if (answer.hasAcknowledged() && answer.getAcknowledged().getEpoch() == epoch) {
      Position known = position(answer.getAcknowledged());
      acknowledged = known.sequence();
      acknowledgedMoves = answer.getAcknowledged().getMoves();
      handoff.acknowledge(known, List.of());
    }
    if (answer.hasEarlier()) {
      return Optional.of(position(answer.getEarlier()));
    }
    return from;
  }

  /**
   * Notes the position that a replayable source was given. With a cursor, it may read again what
   * follows the cursor.
   */
  void gave(Optional<Position> position) {
    floor = position.filter(p -> p.cursor().isEmpty()).map(Position::sequence).orElse(-1L);
  }

  /** How many messages it has sent at or before that position, although they were received. */
  long again() {
    return again;
  }

  /** Whether it may still send some. */
  boolean mayRepeat() {
    return floor >= 0;
  }

  /** Whether its partition is being read, or was. */
  boolean isReading() {
    return reading;
  }

  /** Whether nothing more is sent. */
  boolean isMuted() {
    return muted;
  }

  /** How it was closed; null if it was not. */
  Progress closed() {
    return closed;
  }

  /** Whether there is something to send now. */
  boolean load() {
    if (columns == null && !muted) {
      columns = handoff.poll();
      at = 0;
    }
    return columns != null;
  }

  /** Whether something was read and not sent. */
  boolean hasUnsent() {
    return !muted && (columns != null || handoff.hasReady());
  }

  /** Whether something was sent and not acknowledged. */
  boolean hasUnacknowledged() {
    return acknowledged < lastSent;
  }

  /** Whether it is closed, and everything before the end is acknowledged. */
  boolean isFinished() {
    return closed != null && !muted && acknowledged >= Math.max(resume, lastSent);
  }

  /**
   * Cuts the next frame and spends its credit.
   *
   * @param window the credit of the session
   * @param maxBytes the largest frame
   * @param maxMessages the most messages in it
   * @param whatFits whether to send less than a whole frame
   * @return the frame; null if there is not enough credit
   */
  Frame frame(Window window, long maxBytes, long maxMessages, boolean whatFits) {
    long creditBytes = window.frameBytes() + lentBytes;
    long creditMessages = window.frameMessages() + lentMessages;
    int stop = wholeFrame(window, maxBytes, maxMessages);
    boolean fits = Frames.size(columns, id, at, stop) <= creditBytes && stop - at <= creditMessages;
    if (!fits && (whatFits || lentBytes > 0)) {
      stop =
          Frames.fit(
              columns,
              id,
              at,
              Math.min(maxBytes, creditBytes),
              Math.min(maxMessages, creditMessages));
      fits = stop > at;
    }
    if (!fits) {
      return null;
    }
    releaseGrant(window);
    Frame frame = Frames.frame(columns, id, at, stop);
    window.spend(frame.getSerializedSize(), stop - at);
    for (int sent = at; sent < stop && columns.token(sent) != null; sent++) {
      tokens.add(new Token(columns.sequence(sent), columns.token(sent)));
    }
    lastSent = columns.sequence(stop - 1);
    for (int sent = at; sent < stop && columns.sequence(sent) <= floor; sent++) {
      again++;
    }
    floor = lastSent > floor ? -1 : floor;
    at = stop;
    if (at == columns.count()) {
      columns = null;
    }
    askedForCredit = false;
    return frame;
  }

  /** Takes credit that is for its next frame. */
  void grant(long bytes, long messages) {
    lentBytes += bytes;
    lentMessages += messages;
  }

  /** Gives credit that was for it alone to the session: its frame goes out, or never will. */
  void releaseGrant(Window window) {
    window.add(lentBytes, lentMessages);
    lentBytes = 0;
    lentMessages = 0;
  }

  /** Asks for credit for the next message, or, if a batch waits for it, for all that is ready. */
  CreditRequest creditRequest(long maxBytes, long maxMessages) {
    askedForCredit = true;
    int stop = Math.max(at + 1, Frames.fit(columns, id, at, maxBytes, maxMessages));
    return CreditRequest.newBuilder()
        .setStreamId(id)
        .setBytes(Frames.size(columns, id, at, at + 1))
        .setMessages(1)
        .setReadyBytes(Frames.size(columns, id, at, stop))
        .setReadyMessages(stop - at)
        .build();
  }

  /** What moves the cursor, if it has moved since the last message was sent; else null. */
  Frame cursorFrame() {
    byte[] cursor = columns == null && closed == null && !muted ? handoff.pollCursor() : null;
    if (cursor == null) {
      return null;
    }
    long place = lastSent >= 0 ? lastSent : Math.max(0, resume);
    return Frame.newBuilder()
        .setStreamId(id)
        .setFirstSequence(place)
        .setCursor(ByteString.copyFrom(cursor))
        .build();
  }

  /** What closes it, once the partition has ended and everything is sent; null before. */
  CloseStream close() {
    Progress end = columns == null && closed == null && !muted ? handoff.end() : null;
    if (end == null) {
      return null;
    }
    closed = end;
    return CloseStream.newBuilder()
        .setStreamId(id)
        .setEndOfStream(end != Progress.CLOSE)
        .setGone(end == Progress.GONE)
        .build();
  }

  /** What to report of what is left, if that is news; else null. */
  Backlog backlog() {
    reportDue = false;
    if (closed != null || muted) {
      return null;
    }
    Handoff.Left left = handoff.left();
    boolean caughtUp = left.caughtUp() && columns == null;
    if (left.backlog().isEmpty() && !caughtUp) {
      return null;
    }
    Backlog.Builder answer = Backlog.newBuilder().setStreamId(id);
    left.backlog()
        .ifPresentOrElse(
            known -> {
              known.latestSequence().ifPresent(answer::setLatestSequence);
              known.messages().ifPresent(answer::setMessages);
              known.bytes().ifPresent(answer::setBytes);
            },
            () -> answer.setMessages(0).setBytes(0));
    boolean nothingLeft =
        (answer.hasMessages() && answer.getMessages() == 0)
            || (answer.hasBytes() && answer.getBytes() == 0);
    if (caughtUp && nothingLeft) {
      answer.setLatestSequence(Math.max(0, Math.max(resume, lastSent)));
    }
    Backlog news = answer.build();
    if (news.equals(reported)) {
      return null;
    }
    reported = news;
    return news;
  }

  /** Takes an acknowledgement and passes it to the reader; null if it says nothing new. */
  Position acknowledge(Ack.Stream ack) {
    long sequence = ack.getPosition().getSequence();
    long moves = ack.getPosition().getMoves();
    boolean moved = sequence == acknowledged && moves > acknowledgedMoves;
    if (ack.getPosition().getEpoch() != epoch || (sequence <= acknowledged && !moved)) {
      return null;
    }
    acknowledged = sequence;
    acknowledgedMoves = moves;
    List<Object> covered = new ArrayList<>();
    while (!tokens.isEmpty() && tokens.peek().sequence <= sequence) {
      covered.add(tokens.poll().token);
    }
    Position position = position(ack.getPosition());
    handoff.acknowledge(position, covered);
    return position;
  }

  /** Sends no more; what was sent may still be acknowledged. */
  void mute() {
    muted = true;
    columns = null;
  }

  /** Sends no more, and expects no acknowledgement. */
  void retire() {
    mute();
    lastSent = -1;
    tokens.clear();
  }

  private int wholeFrame(Window window, long maxBytes, long maxMessages) {
    int stop =
        Frames.fit(
            columns,
            id,
            at,
            Math.min(maxBytes, window.shareOfBytes()),
            Math.min(maxMessages, window.shareOfMessages()));
    return Math.max(stop, at + 1);
  }

  private static Position position(io.headrace.protocol.v1.Position position) {
    return Position.of(
        position.getEpoch(),
        position.getSequence(),
        position.hasCursor() ? position.getCursor().toByteArray() : null);
  }
}
