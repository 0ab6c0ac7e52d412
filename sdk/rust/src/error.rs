//! Every error of the SDK.

use std::collections::BTreeMap;

/// An error of any type, as the methods of sources and sinks return it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Why a connector ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source, the sink or a setting is invalid: for instance a name that is not allowed. Correct it.
    #[error("{0}")]
    Invalid(String),
    /// The source yielded something that cannot be sent: for instance sequences that do not increase.
    #[error("{0}")]
    InvalidMessage(String),
    /// A method of the source returned an error.
    #[error("source {source_name}: {doing}: {cause}")]
    Source {
        /// The source's name.
        source_name: String,
        /// What failed, such as the method and the stream.
        doing: String,
        /// The method's own error.
        #[source]
        cause: BoxError,
    },
    /// A method of the sink returned an error before a session could begin. The SDK retries.
    #[error("sink {sink}: {doing}: {cause}")]
    Sink {
        /// The sink's name.
        sink: String,
        /// What failed.
        doing: String,
        /// The method's own error.
        #[source]
        cause: BoxError,
    },
    /// The gateway is unreachable or stopping, or the connection broke. The SDK reconnects.
    #[error("gateway {gateway}: {ending}")]
    Unavailable {
        /// The gateway's address.
        gateway: String,
        /// How the call ended.
        ending: Ending,
    },
    /// The gateway refused the session, and would refuse it again. The SDK does not reconnect.
    #[error("gateway {gateway} refused the session: {ending}")]
    Refused {
        /// The gateway's address.
        gateway: String,
        /// How the call ended.
        ending: Ending,
    },
    /// A newer session of the same instance took over. Give every running copy of a connector a different instance.
    #[error("gateway {gateway}: a newer session of the same instance took over: {ending}")]
    TakenOver {
        /// The gateway's address.
        gateway: String,
        /// How the call ended.
        ending: Ending,
    },
    /// The connector's token does not permit a stream.
    #[error("stream {stream}: {message}")]
    NotPermitted {
        /// The stream.
        stream: String,
        /// The gateway's text.
        message: String,
    },
}

/// How a call to the gateway ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The name of the gRPC status, such as `UNAVAILABLE`.
    pub status: &'static str,
    /// The status in words.
    pub text: String,
    /// The gateway's reason for programs, such as `CREDIT_OVERRUN`; `None` if it gave none.
    pub reason: Option<String>,
    /// The gateway's details of the reason, such as the name of a limit.
    pub metadata: BTreeMap<String, String>,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.status)?;
        if let Some(reason) = &self.reason {
            write!(formatter, " ({reason})")?;
        }
        if self.text.is_empty() {
            return Ok(());
        }
        write!(formatter, ": {}", self.text)
    }
}

impl Error {
    /// Whether the gateway does not know the token, or no longer.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        matches!(self, Error::Refused { ending, .. } if ending.status == "UNAUTHENTICATED")
    }

    /// Whether the SDK tries again by itself.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Error::Unavailable { .. } | Error::Sink { .. })
    }
}
