//! The names of the archive's files: `00000007-20261123T120000Z.gz`.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The name of a file: its number, which orders the files, and when it was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub number: u64,
    /// Seconds since 1970-01-01 UTC.
    begun: u64,
}

impl Name {
    pub fn new(number: u64, begun: SystemTime) -> Self {
        Self { number, begun: begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() }
    }

    /// How long ago the file was begun.
    pub fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(UNIX_EPOCH + Duration::from_secs(self.begun)).unwrap_or_default()
    }

    /// The name in a text; none if it is the name of something else.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, time) = text.strip_suffix("Z.gz")?.split_once('-')?;
        let (date, clock) = time.split_once('T')?;
        if date.len() != 8 || clock.len() != 6 {
            return None;
        }
        let value = |text: &str, from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
        let days = days(value(date, 0, 4)?, value(date, 4, 6)?, value(date, 6, 8)?)?;
        let seconds = value(clock, 0, 2)? * 3600 + value(clock, 2, 4)? * 60 + value(clock, 4, 6)?;
        let name = Self { number: number.parse().ok()?, begun: days * 86_400 + seconds };
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.begun / 86_400);
        let clock = self.begun % 86_400;
        let (hours, minutes, seconds) = (clock / 3600, clock / 60 % 60, clock % 60);
        write!(formatter, "{:08}-{year:04}{month:02}{day:02}T{hours:02}{minutes:02}{seconds:02}Z.gz", self.number)
    }
}

/// The days from 1970-01-01 to a date, by the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    // Years that begin in March have their leap day at the end.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    (year * 365 + year / 4 - year / 100 + year / 400 + of_year).checked_sub(719_468)
}

/// The date a number of days after 1970-01-01.
fn date(since: u64) -> (u64, u64, u64) {
    let at = |year: u64, month: u64| days(year, month, 1).unwrap_or(0);
    let mut year = 1970 + since / 366;
    while at(year + 1, 1) <= since {
        year += 1;
    }
    let month = (2..=12).take_while(|month| at(year, *month) <= since).last().unwrap_or(1);
    (year, month, since - at(year, month) + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_says_when_the_file_was_begun() {
        let begun = UNIX_EPOCH + Duration::from_secs(1_709_210_096);
        let name = Name::new(7, begun);
        assert_eq!(name.to_string(), "00000007-20240229T123456Z.gz");
        assert_eq!(name.age(begun + Duration::from_secs(5)), Duration::from_secs(5));
    }

    #[test]
    fn other_names_are_none() {
        for text in ["", ".gz", "x.gz", "00000007-20240229T123456.gz", "7-20240229T123456Z.gz", "00000007-20240231T123456Z.gz"] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_name_is_read_as_it_was_written(number in any::<u64>(), begun in 0u64..253_402_300_800) {
            let name = Name { number, begun };
            prop_assert_eq!(Name::parse(&name.to_string()), Some(name));
        }

        #[test]
        fn any_text_is_read(text in "\\PC{0,40}") {
            Name::parse(&text);
        }
    }
}
