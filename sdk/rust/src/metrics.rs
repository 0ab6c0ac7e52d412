//! Counters of what a connector does.

/// Receives counts, for the metrics library of your choice. Every method has a default that does nothing. They are called on
/// the connector's task: count, and return.
pub trait Metrics: Send + Sync + 'static {
    /// A source has sent a frame.
    fn frame_sent(&self, stream: &str, messages: u64, bytes: u64) {
        let _ = (stream, messages, bytes);
    }

    /// Everything of a stream up to `sequence` is acknowledged.
    fn acknowledged(&self, stream: &str, sequence: u64) {
        let _ = (stream, sequence);
    }

    /// A sink has received a frame.
    fn frame_received(&self, sink: &str, messages: u64, bytes: u64) {
        let _ = (sink, messages, bytes);
    }

    /// A sink has answered that a transaction is visible.
    fn committed(&self, sink: &str) {
        let _ = sink;
    }

    /// A session has begun.
    fn connected(&self) {}

    /// A session or an attempt to begin one has failed, and the SDK tries again.
    fn reconnecting(&self) {}
}

/// Counts nothing.
pub(crate) struct NoMetrics;

impl Metrics for NoMetrics {}
