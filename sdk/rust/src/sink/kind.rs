//! A trait that the three kinds of sinks share.

use std::sync::Arc;

use super::Recovered;
use super::session::{Answers, Mode};
use crate::BoxError;
use crate::call::Task;
use crate::calls::Calls;
use crate::protocol as pb;

/// A kind of sink.
pub(super) trait Kind: Send + Sync + 'static {
    /// Its mode in the protocol.
    const MODE: pb::SinkMode;

    /// Its handler in one session.
    type Mode: Mode;

    fn name(&self) -> &str;

    fn version(&self) -> &str;

    /// The transactions that the sink holds.
    fn recover(&self, calls: &Calls) -> impl Future<Output = Result<Recovered, BoxError>> + Send;

    /// Closes the sink.
    fn close(&self) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Begins a session.
    fn begin(self: &Arc<Self>, answers: Answers, task: &Task) -> Self::Mode;
}
