//! How a call ended, and whether to reconnect (rules SES-25 to SES-30).

use std::collections::BTreeMap;

use prost::Message;
use tonic::{Code, Status};

use crate::error::{Ending, Error};

const DOMAIN: &str = "headrace";
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RichStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<Detail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Detail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: BTreeMap<String, String>,
}

/// Returns the error that a call ended with.
pub(crate) fn error_of(gateway: &str, status: &Status) -> Error {
    let ending = ending_of(status);
    let gateway = gateway.to_owned();
    if reconnects(&ending) {
        Error::Unavailable { gateway, ending }
    } else if ending.status == "ABORTED" {
        Error::TakenOver { gateway, ending }
    } else {
        Error::Refused { gateway, ending }
    }
}

/// Returns status, text and reason of a call.
pub(crate) fn ending_of(status: &Status) -> Ending {
    let info = error_info(status.details());
    Ending {
        status: name_of(status.code()),
        text: status.message().to_owned(),
        reason: info.as_ref().map(|info| info.reason.clone()),
        metadata: info.map(|info| info.metadata).unwrap_or_default(),
    }
}

/// Whether another session may succeed: decided by the reason if it is known, otherwise by the status.
pub(crate) fn reconnects(ending: &Ending) -> bool {
    match ending.reason.as_deref() {
        Some("TOO_MANY_SESSIONS" | "HELLO_TIMEOUT" | "READ_TIMEOUT" | "GATEWAY_STOPPING") => true,
        Some(
            "MALFORMED_MESSAGE"
            | "PROTOCOL_VERSION_UNSUPPORTED"
            | "MESSAGE_OUT_OF_ORDER"
            | "MESSAGE_UNKNOWN"
            | "UNKNOWN_STREAM"
            | "SEQUENCE_OUT_OF_RANGE"
            | "FRAME_TOO_LARGE"
            | "CREDIT_OVERRUN"
            | "TOO_MANY_STREAMS"
            | "TOO_MANY_NAMES"
            | "LIST_TOO_LONG"
            | "UNAUTHENTICATED"
            | "TOKEN_REVOKED"
            | "NOT_PERMITTED"
            | "TAKEN_OVER"
            | "SINK_MODE_MISMATCH",
        ) => false,
        _ => match ending.status {
            "OK" | "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "CANCELLED" | "INTERNAL" | "UNKNOWN" => true,
            "RESOURCE_EXHAUSTED" => pings_too_often(&ending.text),
            _ => false,
        },
    }
}

/// Whether a text comes from the transport, which found that the connection was pinged too often.
fn pings_too_often(text: &str) -> bool {
    let text = text.to_lowercase().replace('_', " ");
    text.contains("too many pings") || text.contains("enhance your calm")
}

/// Returns the gateway's reason; `None` if there is none, or it is somebody else's.
fn error_info(details: &[u8]) -> Option<ErrorInfo> {
    let details = RichStatus::decode(details).ok()?.details;
    details
        .iter()
        .filter(|detail| detail.type_url == ERROR_INFO)
        .filter_map(|detail| ErrorInfo::decode(detail.value.as_slice()).ok())
        .find(|info| info.domain == DOMAIN)
}

/// Returns the name of a status, as the protocol writes it.
fn name_of(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
