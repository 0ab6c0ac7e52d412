//! The generated stubs of protocol version 1. `make stubs` writes the folder `v1`.

#![allow(dead_code, missing_docs, clippy::all, clippy::pedantic, unused_qualifications)]

include!("v1/messages.rs");

/// The gateway's side, for tests.
#[cfg(test)]
pub(crate) mod services {
    include!("v1/services.rs");
}
