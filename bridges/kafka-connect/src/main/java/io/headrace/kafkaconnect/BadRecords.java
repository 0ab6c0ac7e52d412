package io.headrace.kafkaconnect;

import java.io.IOException;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The policy for records that cannot be transformed, converted or sent, as of all sources. */
final class BadRecords {
  private static final Logger LOG = LoggerFactory.getLogger(BadRecords.class);
  private static final int TELL_EACH = 5;
  private static final int TELL_EVERY = 1000;

  private final Policy policy;
  private final Optional<DeadLetters> letters;
  private long total;

  /** What happens to a record. */
  enum Policy {
    FAIL,
    SKIP,
    DEAD_LETTER
  }

  BadRecords(Policy policy, Optional<DeadLetters> letters) {
    this.policy = policy;
    this.letters = letters;
  }

  /** Takes a record, to be left out; false if the policy is to fail. */
  synchronized boolean takes(BadRecord bad, String reason) throws IOException {
    if (policy == Policy.FAIL) {
      return false;
    }
    if (letters.isPresent()) {
      letters.get().write(bad, reason);
    }
    total++;
    if (total <= TELL_EACH || total % TELL_EVERY == 0) {
      String kept = letters.isPresent() ? ", and stored as a dead letter" : "";
      LOG.warn("left out a record{} ({} in total): {}", kept, total, reason);
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
