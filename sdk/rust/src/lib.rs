//! Write a Headrace source or sink: a source streams messages to a gateway, and from there into Spark; a sink receives the rows
//! of Spark queries in transactions.
//!
//! - Implement [`Source`], or [`TwoPhaseSink`], [`IdempotentSink`] or [`Sink`], and [`run`] it in a [`Connector`].
//! - The SDK batches messages into frames, observes credit, reconnects, resumes, drains, and ends streams.
//! - A message is acknowledged once it is in the checkpoint of every Spark query that reads it, and not before.
//!
//! Logs go to [`tracing`], and [`run`] writes them to standard error. [`Metrics`] counts, and [`Health`] tells operators how the connector is.

mod address;
mod backoff;
mod batch;
mod call;
mod calls;
mod closing;
mod columns;
mod connect;
mod connector;
mod ending;
mod environment;
mod error;
mod frame;
mod health;
mod item;
mod logs;
mod message;
mod metrics;
mod names;
mod packed;
mod protocol;
mod proxy;
mod run;
mod served;
mod settings;
mod sink;
mod source;
mod token_file;

#[cfg(test)]
mod tests;

pub use batch::Batch;
pub use columns::{Headers, Row};
#[cfg(feature = "tls")]
pub use connect::Tls;
pub use connector::Connector;
pub use error::{BoxError, Ending, Error};
pub use health::{Health, State};
pub use item::Item;
pub use logs::{log_level, log_to_stderr};
pub use message::{Message, Position};
pub use metrics::Metrics;
pub use run::run;
pub use settings::Settings;
pub use sink::{IdempotentSink, Outcomes, Part, PartRows, Recovered, Refused, RowError, Rows, Sink, Transaction, TwoPhaseSink};
pub use source::{Backlog, ReadError, Source, SourceKind};
