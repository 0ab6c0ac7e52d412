package io.headrace.sdk.internal.source;

import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Message;
import io.headrace.sdk.Position;
import io.headrace.sdk.source.Backlog;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.Progress;
import io.headrace.sdk.source.QueueReader;
import io.headrace.sdk.source.Unsendable;
import java.util.List;
import java.util.Optional;

/** A reader of a source of any kind. */
interface Reading extends AutoCloseable {
  Progress read(Gatherer gatherer) throws Exception;

  void acknowledged(Position position, List<Object> tokens) throws Exception;

  Unsendable unsendable(Object token, Message message, InvalidMessageException error)
      throws Exception;

  Optional<Backlog> backlog() throws Exception;

  @Override
  void close() throws Exception;

  /** Opens a reader. */
  @FunctionalInterface
  interface Opener {
    Reading open(String partition, Optional<Position> position) throws Exception;
  }

  /** A reader of a source that continues after a position. */
  record Positioned(PartitionReader reader) implements Reading {
    @Override
    public Progress read(Gatherer gatherer) throws Exception {
      return reader.read(gatherer);
    }

    @Override
    public void acknowledged(Position position, List<Object> tokens) throws Exception {
      reader.acknowledged(position);
    }

    @Override
    public Unsendable unsendable(Object token, Message message, InvalidMessageException error)
        throws Exception {
      return reader.unsendable(message, error);
    }

    @Override
    public Optional<Backlog> backlog() throws Exception {
      return reader.backlog();
    }

    @Override
    public void close() throws Exception {
      reader.close();
    }
  }

  /** A reader of a redelivering source. */
  final class Redelivering<T> implements Reading {
    private final QueueReader<T> reader;
    private Counted<T> counted;

    Redelivering(QueueReader<T> reader) {
      this.reader = reader;
    }

    @Override
    public Progress read(Gatherer gatherer) throws Exception {
      if (counted == null) {
        counted = new Counted<>(gatherer);
      }
      return reader.read(counted);
    }

    @Override
    @SuppressWarnings("unchecked") // only the reader's own tokens come here
    public void acknowledged(Position position, List<Object> tokens) throws Exception {
      if (!tokens.isEmpty()) {
        reader.acknowledged((List<T>) tokens);
      }
    }

    @Override
    @SuppressWarnings("unchecked") // as above
    public Unsendable unsendable(Object token, Message message, InvalidMessageException error)
        throws Exception {
      return reader.unsendable((T) token, message, error);
    }

    @Override
    public Optional<Backlog> backlog() throws Exception {
      return reader.backlog();
    }

    @Override
    public void close() throws Exception {
      reader.close();
    }
  }
}
