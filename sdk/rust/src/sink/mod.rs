//! Sinks: the traits of the three modes, and one session of a sink with a gateway.

mod at_least_once;
mod idempotent;
mod kind;
mod queue;
mod rows;
mod served;
mod session;
mod spill;
mod two_phase;
mod types;

use std::future::{Future, ready};

use crate::error::BoxError;

pub use rows::{PartRows, RowError, Rows};
pub use types::{Outcomes, Part, Recovered, Refused, Transaction};

/// A sink that writes at least once. Rows that Spark delivers again after a failure are written again.
///
/// All methods are called one at a time, in order. While a method runs, Spark waits. If a method returns an error, the part is
/// reported as failed, and none of it counts as written.
pub trait Sink: Send + Sync + 'static {
    /// The sink's name in Spark: `df.writeStream.format("headrace").option("sink", name)`. ASCII letters, digits and `._-`.
    fn name(&self) -> &str;

    /// The connector's version, shown with its sessions.
    fn version(&self) -> &str {
        "0"
    }

    /// Writes rows. Rows of different parts may be interleaved; the rows of one part arrive in order.
    fn write(&self, part: &Part, rows: &Rows) -> impl Future<Output = Result<Outcomes, BoxError>> + Send;

    /// Makes all written rows durable. Called at the end of each part.
    fn flush(&self) -> impl Future<Output = Result<(), BoxError>> + Send {
        ready(Ok(()))
    }

    /// Releases what the sink holds, such as connections. Default: does nothing.
    ///
    /// Called once, when [`Connector::serve`](crate::Connector::serve) ends, after every other method has returned: also after an
    /// error, and even if the gateway was never reached. It may block its thread. An error is logged. If another method does not
    /// return within [`Settings::close`](crate::Settings::close), `close` is not called; a `close` that does not return is left.
    fn close(&self) -> impl Future<Output = Result<(), BoxError>> + Send {
        ready(Ok(()))
    }
}

/// A sink that writes each transaction only once, atomically with its id.
///
/// The SDK holds the parts of a transaction in memory until Spark has chosen the ones that count. All methods are called one at a
/// time, in order. All instances of such a sink must share one storage.
pub trait IdempotentSink: Send + Sync + 'static {
    /// The sink's name in Spark. ASCII letters, digits and `._-`.
    fn name(&self) -> &str;

    /// The connector's version, shown with its sessions.
    fn version(&self) -> &str {
        "0"
    }

    /// Writes all rows of a transaction, ordered by partition, together with its id, or nothing. If the id is already stored,
    /// it must write nothing. Called again if it returned an error.
    fn write(&self, transaction: &Transaction, rows: &[Rows]) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Checks rows when they arrive, and refuses rows that must not be written. Default: accepts all.
    fn check(&self, rows: &Rows) -> impl Future<Output = Result<Outcomes, BoxError>> + Send {
        let _ = rows;
        ready(Ok(Outcomes::all_written()))
    }

    /// Returns the last written batch of a pipeline; `None` if there is none or it is unknown. `write` is not called for it.
    fn last(&self, pipeline: &str) -> impl Future<Output = Result<Option<u64>, BoxError>> + Send {
        let _ = pipeline;
        ready(Ok(None))
    }

    /// Releases what the sink holds, such as connections. Default: does nothing.
    ///
    /// Called once, when [`Connector::serve`](crate::Connector::serve) ends, after every other method has returned: also after an
    /// error, and even if the gateway was never reached. It may block its thread. An error is logged. If another method does not
    /// return within [`Settings::close`](crate::Settings::close), `close` is not called; a `close` that does not return is left.
    fn close(&self) -> impl Future<Output = Result<(), BoxError>> + Send {
        ready(Ok(()))
    }
}

/// A sink that writes exactly once: it stages parts durably, votes, and makes them visible on commit.
///
/// `stage` runs concurrently for several parts, and may wait for another one. All other methods are called one at a time, in
/// order. If a method returns an error, the SDK reports a failure to the gateway, and the call may be repeated. A staged part
/// is not visible, and survives a crash until it is committed, dropped or aborted.
pub trait TwoPhaseSink: Send + Sync + 'static {
    /// The sink's name in Spark. ASCII letters, digits and `._-`.
    fn name(&self) -> &str;

    /// The connector's version, shown with its sessions.
    fn version(&self) -> &str {
        "0"
    }

    /// Stores a part durably. None of it may be visible yet. Take `rows` to the end; `?` ends the method when the part is
    /// dropped meanwhile. If it returns an error, the SDK calls `drop_part`.
    fn stage(&self, part: &Part, rows: PartRows<'_>) -> impl Future<Output = Result<Outcomes, BoxError>> + Send;

    /// Deletes all stored data of a part. Does nothing if nothing is stored.
    fn drop_part(&self, part: &Part) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Promises to commit these staged parts when `commit` is called, even after a crash; drops the transaction's other parts.
    /// Must return an error if it does not have one of the parts.
    fn prepare(&self, transaction: &Transaction, parts: &[Part]) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Makes a prepared transaction visible, durably. Does nothing if it is already visible. Must return an error if it knows
    /// nothing of the transaction: what it had staged is lost.
    fn commit(&self, transaction: &Transaction) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Deletes all data of an uncommitted transaction. Does nothing if nothing is stored.
    fn abort(&self, transaction: &Transaction) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Returns what is stored, after completing a commit that a crash interrupted. Called each time the connector connects.
    fn recover(&self) -> impl Future<Output = Result<Recovered, BoxError>> + Send;

    /// Releases what the sink holds, such as connections. Default: does nothing.
    ///
    /// Called once, when [`Connector::serve`](crate::Connector::serve) ends, after every other method has returned: also after an
    /// error, and even if the gateway was never reached. It may block its thread. An error is logged. If another method does not
    /// return within [`Settings::close`](crate::Settings::close), `close` is not called; a `close` that does not return is left.
    fn close(&self) -> impl Future<Output = Result<(), BoxError>> + Send {
        ready(Ok(()))
    }
}
