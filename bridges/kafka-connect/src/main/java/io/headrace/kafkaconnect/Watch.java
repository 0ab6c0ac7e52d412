package io.headrace.kafkaconnect;

import java.sql.SQLException;
import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks at the database again and again, as long as the bridge runs, on a thread of its own, and
 * reports what is wrong with it. A look that fails reports nothing: the connector says itself that
 * its server is away.
 */
final class Watch implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(Watch.class);

  private final Database database;
  private final Health health;
  private final Duration between;
  private final Thread thread = new Thread(this, "watch");
  private boolean failed;

  Watch(Database database, Health health, Duration between) {
    this.database = database;
    this.health = health;
    this.between = between;
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  @Override
  public void run() {
    try {
      while (true) {
        look();
        Thread.sleep(between.toMillis());
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  /** Looks once. */
  void look() {
    try {
      health.problems(database.problems());
      failed = false;
    } catch (SQLException | RuntimeException error) {
      if (!failed) {
        LOG.warn("the database cannot be looked at", error);
      }
      failed = true;
    }
  }
}
