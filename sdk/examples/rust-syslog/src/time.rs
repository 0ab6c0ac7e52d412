//! Timestamps of syslog, in microseconds since 1970-01-01 UTC.

const MICROS: i64 = 1_000_000;
const MONTHS: [&[u8]; 12] = [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// A time of day on a day, without a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    seconds: i64,
    micros: i64,
}

impl Civil {
    /// The time as if it were UTC; none if there is no such day.
    fn at_utc(self) -> Option<i64> {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let length = match self.month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let valid = (1..=12).contains(&self.month) && (1..=length).contains(&self.day);
        let days = days_before(self.year, self.month) + self.day - 1;
        valid.then(|| (days * 86_400 + self.seconds) * MICROS + self.micros)
    }
}

/// The days from 1970-01-01 to the first of a month, by the proleptic Gregorian calendar.
fn days_before(year: i64, month: i64) -> i64 {
    // Years that begin in March have their leap day at the end.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The year in which a time is.
fn year_of(micros: i64) -> i64 {
    let days = micros.div_euclid(86_400 * MICROS);
    let mut year = 1970 + days.div_euclid(366);
    while days_before(year + 1, 1) <= days {
        year += 1;
    }
    year
}

/// A time of RFC 3339, such as `2003-08-24T05:14:15.000003-07:00`. Digits after the sixth of a second are dropped.
pub fn rfc3339(text: &[u8]) -> Option<i64> {
    if text.get(4) != Some(&b'-') || text.get(7) != Some(&b'-') || !matches!(text.get(10), Some(b'T' | b't')) {
        return None;
    }
    let (seconds, rest) = time_of_day(text.get(11..)?)?;
    let (micros, rest) = fraction(rest)?;
    let civil = Civil { year: digits(&text[..4])?, month: digits(&text[5..7])?, day: digits(&text[8..10])?, seconds, micros };
    Some(civil.at_utc()? - zone(rest)? * MICROS)
}

/// A time of RFC 3164, such as `Oct 11 22:14:15`, at the beginning of a text; also what follows it. `Oct 11 2003 22:14:15` and
/// fractions of a second occur, too. Its year makes it nearest to `received`, and its zone is `offset` seconds
/// east of UTC.
pub fn rfc3164(text: &[u8], received: i64, offset: i64) -> Option<(i64, &[u8])> {
    let month = 1 + MONTHS.iter().position(|name| text.get(..3).is_some_and(|month| month.eq_ignore_ascii_case(name)))? as i64;
    let rest = text.get(3..)?.strip_prefix(b" ")?;
    // A day of one digit has a space before it; some senders omit it.
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let (day, rest) = number(rest, 2)?;
    let rest = rest.strip_prefix(b" ")?;
    let (year, rest) = match number(rest, 4) {
        Some((year, after)) if year >= 1000 => (Some(year), after.strip_prefix(b" ")?),
        _ => (None, rest),
    };
    let (seconds, rest) = time_of_day(rest)?;
    let (micros, rest) = fraction(rest)?;
    let at = |year: i64| Some(Civil { year, month, day, seconds, micros }.at_utc()? - offset * MICROS);
    let time = match year {
        Some(year) => at(year)?,
        None => {
            let now = year_of(received);
            let near = [now - 1, now, now + 1].into_iter().filter_map(at);
            near.min_by_key(|time| time.abs_diff(received))?
        }
    };
    Some((time, rest))
}

/// An offset from UTC, such as `Z` or `+02:00`, in seconds.
pub fn zone(text: &[u8]) -> Option<i64> {
    let (sign, rest) = match text {
        b"Z" | b"z" => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let [h1, h2, b':', m1, m2] = *rest else { return None };
    let (hours, minutes) = (digits(&[h1, h2])?, digits(&[m1, m2])?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// The seconds of `22:14:15` at the beginning of a text, and what follows.
fn time_of_day(text: &[u8]) -> Option<(i64, &[u8])> {
    let [h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = text else { return None };
    let (hours, minutes, seconds) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?, digits(&[*s1, *s2])?);
    (hours < 24 && minutes < 60 && seconds < 60).then_some((hours * 3600 + minutes * 60 + seconds, rest))
}

/// The microseconds of `.000003` at the beginning of a text, if it is there, and what follows.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(rest) = text.strip_prefix(b".") else { return Some((0, text)) };
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let micros = (0..6).fold(0, |micros, at| micros * 10 + rest[..count].get(at).map_or(0, |byte| i64::from(byte - b'0')));
    (count > 0).then(|| (micros, &rest[count..]))
}

/// A number of at most `most` digits at the beginning of a text, and what follows.
fn number(text: &[u8], most: usize) -> Option<(i64, &[u8])> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count().min(most);
    Some((digits(&text[..count])?, &text[count..]))
}

fn digits(text: &[u8]) -> Option<i64> {
    let value = |sum: i64, byte: &u8| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'));
    if text.is_empty() { None } else { text.iter().try_fold(0, value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_2003: i64 = 1_065_910_455 * MICROS; // 2003-10-11T22:14:15Z

    #[test]
    fn the_examples_of_rfc_5424() {
        assert_eq!(rfc3339(b"1985-04-12T23:20:50.52Z"), Some(482_196_050_520_000));
        assert_eq!(rfc3339(b"2003-10-11T22:14:15.003Z"), Some(IN_2003 + 3_000));
        assert_eq!(rfc3339(b"2003-08-24T05:14:15.000003-07:00"), Some(1_061_727_255_000_003));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in ["2003-13-01T00:00:00Z", "2003-02-29T00:00:00Z", "2003-10-11T24:00:00Z", "2003-10-11T22:14:15", "-", "2003-"]
        {
            assert_eq!(rfc3339(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_year_is_the_nearest() {
        assert_eq!(rfc3164(b"Oct 11 22:14:15 host", IN_2003, 0), Some((IN_2003, b" host".as_slice())));
        let new_year = rfc3339(b"2004-01-01T00:00:10Z").expect("a time");
        assert_eq!(rfc3164(b"Dec 31 23:59:59", new_year, 0).map(|found| found.0), rfc3339(b"2003-12-31T23:59:59Z"));
        let old_year = rfc3339(b"2003-12-31T23:59:50Z").expect("a time");
        assert_eq!(rfc3164(b"Jan  1 00:00:05", old_year, 0).map(|found| found.0), rfc3339(b"2004-01-01T00:00:05Z"));
        // There is a 29th of February in one of the three years.
        let leap = rfc3339(b"2005-01-01T00:00:00Z").expect("a time");
        assert_eq!(rfc3164(b"Feb 29 12:00:00", leap, 0).map(|found| found.0), rfc3339(b"2004-02-29T12:00:00Z"));
    }

    #[test]
    fn a_zone_and_a_year() {
        let local = rfc3164(b"Oct 11 2003 22:14:15.5", IN_2003, zone(b"-07:00").expect("a zone"));
        assert_eq!(local, Some((IN_2003 + 7 * 3600 * MICROS + 500_000, b"".as_slice())));
    }
}
