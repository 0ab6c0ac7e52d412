//! The wait before a reconnect: exponential, with full jitter (rule SES-31).

use std::time::Duration;

/// Counts attempts in a row, and draws the wait before each.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    attempts: u32,
}

impl Backoff {
    /// Begins with waits of up to `first`; their bound doubles with each attempt, up to `longest`.
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, attempts: 0 }
    }

    /// Returns how long to wait before the next attempt, and counts the attempt.
    pub(crate) fn next_wait(&mut self) -> Duration {
        let bound = self.bound();
        self.attempts = self.attempts.saturating_add(1);
        bound.mul_f64(fastrand::f64())
    }

    /// Returns the longest wait before the next attempt.
    pub(crate) fn bound(&self) -> Duration {
        // The bound is `longest` long before 2^60, and a larger power would overflow a duration.
        let doubled = self.first.as_secs_f64() * 2f64.powi(self.attempts.min(60) as i32);
        Duration::from_secs_f64(doubled.min(self.longest.as_secs_f64()))
    }

    /// Starts over, after a session that stood.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }
}
