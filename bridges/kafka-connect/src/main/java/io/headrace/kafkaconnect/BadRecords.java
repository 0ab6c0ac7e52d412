package io.headrace.kafkaconnect;

import java.io.IOException;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The policy for records that cannot be transformed, converted or sent, as of all sources. */
public final class BadRecords {
  private static final Logger LOG = LoggerFactory.getLogger(BadRecords.class);
  private static final int TELL_EACH = 5;
  private static final int TELL_EVERY = 1000;

  private final Policy policy;
  private final Optional<DeadLetters> letters;
  private final Secrets secrets;
  private long total;

  /** What happens to a record. */
  public enum Policy {
    /** It is not taken. */
    FAIL,
    /** It is left out. */
    SKIP,
    /** It is stored. */
    DEAD_LETTER
  }

  /** A policy, and what stores its dead letters. */
  public BadRecords(Policy policy, Optional<DeadLetters> letters, Secrets secrets) {
    this.policy = policy;
    this.letters = letters;
    this.secrets = secrets;
  }

  /** Takes a record, to be left out; false if the policy is to fail. */
  public synchronized boolean takes(BadRecord bad, String reason) throws IOException {
    if (policy == Policy.FAIL) {
      return false;
    }
    if (letters.isPresent()) {
      letters.get().write(bad, secrets.masked(reason));
    }
    total++;
    if (total <= TELL_EACH || total % TELL_EVERY == 0) {
      String kept = letters.isPresent() ? ", and stored as a dead letter" : "";
      LOG.warn("left out a record{} ({} in total): {}", kept, total, secrets.masked(reason));
    }
    return true;
  }

  /** The policy by its name in configuration files. */
  static Policy policy(String name) {
    return switch (name) {
      case "skip" -> Policy.SKIP;
      case "dead-letter" -> Policy.DEAD_LETTER;
      default -> Policy.FAIL;
    };
  }
}
