//! Messages in a TCP stream (RFC 6587): by octet counting (`11 <13>message`), or each ended by a newline. A sender may use both.

use bytes::{Buf, Bytes, BytesMut};

/// A stream that cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message has more than {limit} bytes")]
pub struct TooLong {
    pub limit: usize,
}

/// How the next message is ended.
enum Next {
    /// By its length: where it begins, and its size.
    Counted(usize, usize),
    Newline,
    /// That cannot be known yet.
    Unknown,
}

/// Takes the next message out of what has arrived; none if it is not complete yet.
///
/// # Errors
///
/// [`TooLong`] if it has, or will have, more than `limit` bytes.
pub fn next(arrived: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, TooLong> {
    match kind(arrived) {
        Next::Unknown => Ok(None),
        Next::Counted(_, size) if size > limit => Err(TooLong { limit }),
        Next::Counted(begin, size) if arrived.len() >= begin + size => {
            arrived.advance(begin);
            Ok(Some(arrived.split_to(size).freeze()))
        }
        Next::Counted(..) => Ok(None),
        Next::Newline => match arrived.iter().take(limit + 2).position(|byte| *byte == b'\n') {
            Some(end) => {
                let line = arrived.split_to(end + 1).freeze();
                let line = trimmed(line);
                if line.len() > limit { Err(TooLong { limit }) } else { Ok(Some(line)) }
            }
            None if arrived.len() > limit + 1 => Err(TooLong { limit }),
            None => Ok(None),
        },
    }
}

/// What is left when a sender has closed the connection: a message without a newline, or nothing, since a counted message is
/// not complete.
pub fn last(arrived: BytesMut) -> Option<Bytes> {
    match kind(&arrived) {
        Next::Newline => Some(trimmed(arrived.freeze())).filter(|line| !line.is_empty()),
        _ => None,
    }
}

/// A message without what ends it: a newline, a carriage return before it, or a NUL, which some senders add.
pub fn trimmed(mut message: Bytes) -> Bytes {
    for ending in [b'\n', b'\r', 0] {
        if message.last() == Some(&ending) {
            message.truncate(message.len() - 1);
        }
    }
    message
}

fn kind(arrived: &[u8]) -> Next {
    let digits = arrived.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    match (arrived.first(), arrived.get(digits)) {
        (None, _) => Next::Unknown,
        (Some(b'1'..=b'9'), None) => Next::Unknown,
        (Some(b'1'..=b'9'), Some(b' ')) => {
            let size = arrived[..digits].iter().fold(0usize, |sum, byte| sum * 10 + usize::from(byte - b'0'));
            Next::Counted(digits + 1, size)
        }
        _ => Next::Newline,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes every message of a stream that arrives in pieces.
    fn all(pieces: &[&[u8]], limit: usize) -> Result<Vec<Bytes>, TooLong> {
        let (mut arrived, mut found) = (BytesMut::new(), Vec::new());
        for piece in pieces {
            arrived.extend_from_slice(piece);
            while let Some(message) = next(&mut arrived, limit)? {
                found.push(message);
            }
        }
        found.extend(last(arrived));
        Ok(found)
    }

    #[test]
    fn both_framings_in_one_stream() {
        let found = all(&[b"<13>one\r\n10 <13>t\nwo\nx<13>three\n9 <13>lost"], 100).expect("short");
        assert_eq!(found, [b"<13>one".as_slice(), b"<13>t\nwo\nx", b"<13>three"]);
        assert_eq!(all(&[b"<13>no newline"], 100).expect("short"), ["<13>no newline"]);
        // Digits without a space are a line.
        assert_eq!(all(&[b"2003-10-11 text\n12345678901 x\n"], 100).expect("short"), ["2003-10-11 text", "12345678901 x"]);
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_has_arrived() {
        assert_eq!(all(&[b"101 x"], 100), Err(TooLong { limit: 100 }));
        assert_eq!(all(&[&[b'x'; 102]], 100), Err(TooLong { limit: 100 }));
        assert_eq!(all(&[&[b'x'; 100], b"\n"], 100).expect("it fits").len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300), limit in 0usize..50) {
            let _ = all(&[&bytes], limit);
        }

        #[test]
        fn messages_do_not_depend_on_the_pieces_in_which_they_arrive(
            messages in proptest::collection::vec((any::<bool>(), "<13>[ -~]{0,30}"), 0..8),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let framed = |(counted, text): &(bool, String)| match counted {
                true => format!("{} {text}", text.len()),
                false => format!("{text}\n"),
            };
            let stream: Vec<u8> = messages.iter().map(framed).collect::<String>().into_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            let found = all(&pieces, 100).expect("short");
            prop_assert_eq!(found, messages.into_iter().map(|(_, text)| Bytes::from(text)).collect::<Vec<_>>());
        }
    }
}
