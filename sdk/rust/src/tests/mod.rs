//! Tests through the public interface, against gateways that run in the same process, over gRPC.

mod calls;
mod close;
mod environment;
mod gateway;
mod json;
mod logs;
mod script;
mod sink;
mod source;
mod token_file;
mod vectors;
