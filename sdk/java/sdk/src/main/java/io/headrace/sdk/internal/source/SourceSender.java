package io.headrace.sdk.internal.source;

import io.headrace.protocol.v1.Backlog;
import io.headrace.protocol.v1.Capability;
import io.headrace.protocol.v1.CloseStream;
import io.headrace.protocol.v1.Credit;
import io.headrace.protocol.v1.Frame;
import io.headrace.protocol.v1.Frames;
import io.headrace.protocol.v1.IngestRequest;
import io.headrace.protocol.v1.Welcome;
import io.headrace.sdk.Metrics;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.function.Consumer;

/**
 * Decides what a session sends next: control messages first, then frames of the streams by turns,
 * within credit. Used by the session's thread.
 */
final class SourceSender {
  /** How long the stream whose turn it is waits for credit before the others ask for theirs. */
  private static final long OTHERS_ASK_NANOS = Duration.ofMillis(100).toNanos();

  /** How many frames may share a message (FRM-17). */
  private static final int MAX_JOINED_FRAMES = 256;

  /** How large the frames are that share a message, in bytes: a larger frame gains nothing. */
  private static final int MAX_JOINED_BYTES = 64 * 1024;

  private final long maxBytes;
  private final long maxMessages;
  private final Window window;
  private final Metrics metrics;
  private final Consumer<Stream> sent;
  private final ArrayDeque<IngestRequest> control = new ArrayDeque<>();
  private final ArrayDeque<Stream> due = new ArrayDeque<>();
  private final boolean joins;
  private final boolean moves;
  private IngestRequest following;
  private boolean muted;
  private boolean nothingOutstanding = true;
  private boolean askedForCredit;
  private boolean waiting;
  private long waitingSince;

  SourceSender(Welcome welcome, Metrics metrics, Consumer<Stream> sent) {
    this.maxBytes = welcome.getMaxFrameBytes();
    this.maxMessages = welcome.getMaxFrameMessages();
    Credit credit = welcome.getCredit();
    this.window =
        new Window(credit.getBytes(), credit.getMessages(), welcome.getFrameOverheadBytes());
    this.joins = welcome.getCapabilitiesList().contains(Capability.CAPABILITY_FRAMES);
    this.moves = welcome.getCapabilitiesList().contains(Capability.CAPABILITY_CURSORS);
    this.metrics = metrics;
    this.sent = sent;
  }

  /** Sends a control message before any further frame. */
  void say(IngestRequest.Builder request) {
    control.add(request.build());
  }

  /** Takes credit that any stream may spend. */
  void grant(Credit credit) {
    window.grant(credit.getBytes(), credit.getMessages());
    askedForCredit = false;
  }

  /** Takes credit for one stream, whose frame goes next: a batch waits for it. */
  void grant(Stream stream, Credit credit) {
    stream.grant(credit.getBytes(), credit.getMessages());
    if (stream.due && !stream.isMuted()) {
      due.remove(stream);
      due.addFirst(stream);
    } else {
      stream.releaseGrant(window);
    }
    askedForCredit = false;
  }

  /** Notes whether anything that was sent is unacknowledged. */
  void setNothingOutstanding(boolean nothing) {
    if (nothing) {
      window.settle();
    }
    nothingOutstanding = nothing;
  }

  /** Gives a stream its turn. */
  void makeDue(Stream stream) {
    if (!stream.due && !stream.isMuted()) {
      stream.due = true;
      due.add(stream);
    }
  }

  /** Sends no more frames. */
  void mute() {
    muted = true;
  }

  /** When to look again though nothing has happened: a time of {@link System#nanoTime()}. */
  long nextLook(long otherwise) {
    long others = waitingSince + OTHERS_ASK_NANOS;
    return waiting && others - otherwise < 0 ? others : otherwise;
  }

  /**
   * The next message to send, with as many small frames as are due; null if there is none, or no
   * credit for it.
   */
  IngestRequest joined() {
    IngestRequest before = takeFollowing();
    IngestRequest request = before != null ? before : next();
    long most = Math.min(MAX_JOINED_BYTES, maxBytes);
    if (!joins || request == null || !request.hasFrame() || request.getSerializedSize() > most) {
      return request;
    }
    long size = request.getSerializedSize();
    Frames.Builder frames = Frames.newBuilder().addFrames(request.getFrame());
    while (frames.getFramesCount() < MAX_JOINED_FRAMES && (following = next()) != null) {
      size += following.getSerializedSize();
      if (!following.hasFrame() || size > most) {
        break;
      }
      frames.addFrames(following.getFrame());
      following = null;
    }
    return frames.getFramesCount() == 1
        ? request
        : IngestRequest.newBuilder().setFrames(frames).build();
  }

  /** What comes after frames that share a message, and was not sent yet; null if nothing does. */
  IngestRequest takeFollowing() {
    IngestRequest taken = following;
    following = null;
    return taken;
  }

  /** The next message; null if there is none, or no credit for it. */
  IngestRequest next() {
    if (!control.isEmpty()) {
      return control.poll();
    }
    while (!due.isEmpty() && !muted) {
      Stream stream = due.peek();
      if (stream.isMuted()) {
        turnOver(stream);
        continue;
      }
      IngestRequest request = nextOf(stream);
      if (request != null) {
        waiting = false;
        return request;
      }
      if (stream.due) {
        // It keeps its turn until it has credit, or a large message would wait for ever.
        return askForCredit(stream);
      }
    }
    waiting = false;
    return null;
  }

  /** Null if it has nothing (then its turn is over), or no credit (then it is still due). */
  private IngestRequest nextOf(Stream stream) {
    if (stream.reportDue) {
      Backlog backlog = stream.backlog();
      if (backlog != null) {
        return IngestRequest.newBuilder().setBacklog(backlog).build();
      }
    }
    if (stream.load()) {
      Frame frame = stream.frame(window, maxBytes, maxMessages, nothingOutstanding);
      if (frame == null) {
        return null;
      }
      nothingOutstanding = false;
      turnOver(stream);
      stream.reportDue = true;
      makeDue(stream);
      sent.accept(stream);
      metrics.frameSent(stream.name, frame.getCount(), frame.getSerializedSize());
      return IngestRequest.newBuilder().setFrame(frame).build();
    }
    turnOver(stream);
    Frame cursor = stream.cursorFrame();
    if (cursor != null && moves) {
      makeDue(stream);
      return IngestRequest.newBuilder().setFrame(cursor).build();
    }
    CloseStream close = stream.close();
    if (close == null) {
      return null;
    }
    sent.accept(stream);
    return IngestRequest.newBuilder().setCloseStream(close).build();
  }

  private IngestRequest askForCredit(Stream first) {
    long now = System.nanoTime();
    if (!waiting) {
      waiting = true;
      waitingSince = now;
      metrics.waitingForCredit(first.name);
    }
    if (!first.askedForCredit || !askedForCredit) {
      askedForCredit = true;
      return request(first);
    }
    if (now - waitingSince < OTHERS_ASK_NANOS) {
      return null;
    }
    // A batch may wait for any of them, and what the first one holds may come back only after it.
    Iterator<Stream> others = due.iterator();
    while (others.hasNext()) {
      Stream other = others.next();
      if (!other.isMuted() && !other.askedForCredit && other.load()) {
        return request(other);
      }
    }
    waiting = false;
    waitingSince = now;
    return null;
  }

  private IngestRequest request(Stream stream) {
    return IngestRequest.newBuilder()
        .setCreditRequest(stream.creditRequest(maxBytes, maxMessages))
        .build();
  }

  private void turnOver(Stream stream) {
    stream.releaseGrant(window);
    due.remove(stream);
    stream.due = false;
  }
}
