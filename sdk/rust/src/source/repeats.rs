//! Messages that a source yields again, although it has a position after them.

use crate::frame::numbers;
use crate::message::Position;
use crate::protocol::Frame;

/// Counts such messages of one stream, until the source has passed its position.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    floor: Option<u64>,
    again: u64,
    named: bool,
}

/// What to tell of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The source has begun to yield messages again.
    Begins,
    /// It has passed its position, after this number of messages.
    Passed(u64),
}

impl Repeats {
    /// Begins after a position. With a cursor, the source may yield again what follows the cursor.
    pub(super) fn after(position: Option<&Position>) -> Self {
        let floor = position.filter(|position| position.cursor.is_none()).map(|position| position.sequence);
        Self { floor, ..Self::default() }
    }

    /// Notes a frame that is sent.
    pub(super) fn note(&mut self, frame: &Frame) {
        let Some(floor) = self.floor else { return };
        let mut sequence = frame.first_sequence;
        let mut deltas = numbers(&frame.sequence_deltas);
        for _ in 0..frame.count {
            if sequence > floor {
                self.floor = None;
                return;
            }
            self.again += 1;
            sequence += u64::from(deltas.next().unwrap_or(1));
        }
    }

    /// Returns each finding that nobody has read yet.
    pub(super) fn news(&mut self) -> Option<News> {
        if self.again == 0 {
            return None;
        }
        if !self.named {
            self.named = true;
            return Some(News::Begins);
        }
        self.floor.is_none().then(|| News::Passed(std::mem::take(&mut self.again)))
    }
}

#[cfg(test)]
mod tests {
    use super::{News, Repeats};
    use crate::message::Position;
    use crate::protocol::Frame;

    fn frame(first_sequence: u64, deltas: &[u32]) -> Frame {
        let sequence_deltas: Vec<u8> = deltas.iter().flat_map(|delta| delta.to_le_bytes()).collect();
        let count = u32::try_from(deltas.len()).expect("small") + 1;
        Frame { first_sequence, count, sequence_deltas: sequence_deltas.into(), ..Frame::default() }
    }

    fn at(sequence: u64, cursor: Option<&'static [u8]>) -> Position {
        Position { sequence, cursor: cursor.map(Into::into), ..Position::default() }
    }

    #[test]
    fn what_is_yielded_again_is_named_once_and_counted_until_the_position_is_passed() {
        let mut repeats = Repeats::after(Some(&at(7, None)));
        assert_eq!(repeats.news(), None);
        repeats.note(&frame(1, &[2, 2]));
        assert_eq!((repeats.news(), repeats.news()), (Some(News::Begins), None));
        repeats.note(&frame(6, &[1, 1]));
        assert_eq!((repeats.news(), repeats.news()), (Some(News::Passed(5)), None));
    }

    #[test]
    fn a_source_may_go_back_to_its_cursor_or_begin_without_a_position() {
        for mut repeats in [Repeats::after(Some(&at(7, Some(b"0")))), Repeats::after(None)] {
            repeats.note(&frame(1, &[1]));
            assert_eq!(repeats.news(), None);
        }
    }
}
