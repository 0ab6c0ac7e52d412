//! Settings of a connector.

use std::time::Duration;

/// Settings that rarely need to be changed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// How long to gather messages for a frame, until the gateway sets another pace. Default: 5 ms.
    pub linger: Duration,
    /// The size at which a frame is sent without waiting for more messages, in bytes. Default: 256 KiB.
    pub frame_bytes: usize,
    /// The number of messages at which a frame is sent without waiting for more. Default: 8192.
    pub frame_messages: usize,
    /// How long to wait for acknowledgements, or for a sink to finish, when the connector is stopped. Default: 10 s.
    pub drain: Duration,
    /// The interval at which the SDK asks the source for its partitions. Default: 3 s.
    pub partition_poll: Duration,
    /// How long to wait for the connection and the gateway's Welcome before trying again. Default: 10 s.
    pub welcome: Duration,
    /// After how long a method that does not return is logged, by its name and with whether it blocks a thread of the runtime; again
    /// after twice the time, and so on. Default: 10 s.
    pub stuck: Duration,
    /// How long to wait, at the end, for methods that still run and then for `close`, together. Default: 10 s.
    pub close: Duration,
    /// The longest wait before the first reconnect; it doubles with each further one. Default: 50 ms.
    pub first_backoff: Duration,
    /// The longest wait before any reconnect. Default: 2 s.
    pub max_backoff: Duration,
    /// The size of the queue of each part of a two-phase sink at which the SDK stops reading from the gateway, in bytes. If
    /// another part needs rows in the meantime, the excess goes to a temporary file. Default: 8 MiB.
    pub queue_bytes: usize,
    /// How much a batch-idempotent sink may hold of undecided transactions, in bytes. A part beyond it fails. Default: 256 MiB.
    pub hold_bytes: usize,
    /// The largest message that a sink accepts from the gateway, in bytes. Default: 5 MiB; raise it with the gateway's
    /// `limits.max_frame_bytes`.
    pub max_message_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            linger: Duration::from_millis(5),
            frame_bytes: 256 * 1024,
            frame_messages: 8192,
            drain: Duration::from_secs(10),
            partition_poll: Duration::from_secs(3),
            welcome: Duration::from_secs(10),
            stuck: Duration::from_secs(10),
            close: Duration::from_secs(10),
            first_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(2),
            queue_bytes: 8 << 20,
            hold_bytes: 256 << 20,
            max_message_bytes: 5 << 20,
        }
    }
}
