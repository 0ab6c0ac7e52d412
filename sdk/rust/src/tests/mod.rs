//! Tests through the public interface, against gateways that run in the same process, over gRPC.

#![allow(dead_code)]

mod gateway;
mod json;
mod script;
mod source;
mod vectors;
