//! The rules of names (SES-4, SRC-5, SNK-1), checked before anything is sent.

use crate::error::Error;

const MAX_NAME_BYTES: usize = 255;

/// Returns the name of a partition's stream.
pub(crate) fn stream_name(source: &str, partition: &str) -> Result<String, Error> {
    for (what, part) in [("source name", source), ("partition name", partition)] {
        if !is_name(part) {
            return Err(Error::Invalid(format!("{what} {part:?}: one or more ASCII letters, digits and '._-' are allowed")));
        }
    }
    let name = format!("{source}/{partition}");
    if name.len() > MAX_NAME_BYTES {
        return Err(Error::Invalid(format!("stream name {name:?} has {} bytes, {MAX_NAME_BYTES} are allowed", name.len())));
    }
    Ok(name)
}

/// Checks a text of Hello, which must not be empty.
pub(crate) fn check_text(what: &str, text: &str) -> Result<(), Error> {
    if text.is_empty() || text.len() > MAX_NAME_BYTES {
        return Err(Error::Invalid(format!("{what} {text:?} has {} bytes, 1 to {MAX_NAME_BYTES} are allowed", text.len())));
    }
    Ok(())
}

/// Checks the name of a sink.
pub(crate) fn check_sink_name(name: &str) -> Result<(), Error> {
    if is_name(name) {
        return Ok(());
    }
    Err(Error::Invalid(format!("sink name {name:?}: 1 to {MAX_NAME_BYTES} ASCII letters, digits and '._-' are allowed")))
}

/// Whether it is a valid name of a sink, or part of a stream's name.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(allowed)
}
