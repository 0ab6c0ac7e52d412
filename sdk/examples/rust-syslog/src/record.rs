//! A syslog message and its parts: RFC 5424 as it is written, RFC 3164 as it is practised.

use std::ops::Range;

use bytes::Bytes;

use crate::time;

pub const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp", "audit",
    "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];
pub const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
/// The priority of a message without one (RFC 3164, 4.3.3): user, notice.
const NO_PRIORITY: u8 = 13;

/// The format that a message has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Rfc5424,
    Rfc3164,
    /// It does not begin with a priority: all of it is the message.
    Unknown,
}

/// The content of a message. Text that is not valid UTF-8 is replaced; the message itself stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub format: Format,
    pub facility: &'static str,
    pub severity: &'static str,
    /// Microseconds since 1970-01-01 UTC; none if the message has no valid time.
    pub time: Option<i64>,
    pub host: Option<String>,
    pub app: Option<String>,
    pub process: Option<String>,
    /// MSGID of RFC 5424.
    pub kind: Option<String>,
    /// The structured data of RFC 5424, as it was written.
    pub data: Option<String>,
    pub message: Bytes,
}

/// Parses a message, whatever its bytes are. `received` is when it arrived, and `offset` the zone of times that have none, in
/// seconds east of UTC.
pub fn parse(payload: &Bytes, received: i64, offset: i64) -> Record {
    let mut parser = Parser { payload, at: 0 };
    let Some(priority) = parser.priority() else {
        return Record { format: Format::Unknown, ..empty(NO_PRIORITY, payload.clone()) };
    };
    let after = parser.at;
    if let Some(record) = parser.rfc5424(priority) {
        return record;
    }
    parser.at = after;
    parser.rfc3164(priority, received, offset)
}

fn empty(priority: u8, message: Bytes) -> Record {
    Record {
        format: Format::Rfc3164,
        facility: FACILITIES[usize::from(priority / 8)],
        severity: SEVERITIES[usize::from(priority % 8)],
        time: None,
        host: None,
        app: None,
        process: None,
        kind: None,
        data: None,
        message,
    }
}

struct Parser<'a> {
    payload: &'a Bytes,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &[u8] {
        &self.payload[self.at..]
    }

    fn text(&self, range: Range<usize>) -> String {
        String::from_utf8_lossy(&self.payload[range]).into_owned()
    }

    /// `<34>`: at most 191.
    fn priority(&mut self) -> Option<u8> {
        let rest = self.rest().strip_prefix(b"<")?;
        let count = rest.iter().take(4).position(|byte| *byte == b'>').filter(|count| *count > 0)?;
        let digits = &rest[..count];
        let value = digits.iter().try_fold(0u16, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u16::from(byte - b'0')))?;
        self.at += count + 2;
        u8::try_from(value).ok().filter(|value| *value <= 191)
    }

    /// The text up to the next space, which is skipped; `-` stands for none.
    fn field(&mut self) -> Option<Option<String>> {
        let length = self.rest().iter().position(|byte| *byte == b' ')?;
        let range = self.at..self.at + length;
        self.at += length + 1;
        match &self.payload[range.clone()] {
            b"" => None,
            b"-" => Some(None),
            _ => Some(Some(self.text(range))),
        }
    }

    fn rfc5424(&mut self, priority: u8) -> Option<Record> {
        if !self.rest().starts_with(b"1 ") {
            return None;
        }
        self.at += 2;
        let time = match self.field()? {
            Some(text) => Some(time::rfc3339(text.as_bytes())?),
            None => None,
        };
        let (host, app, process, kind) = (self.field()?, self.field()?, self.field()?, self.field()?);
        let data = self.structured_data()?;
        let rest = self.at + usize::from(self.rest().first() == Some(&b' '));
        let message = self.payload.slice(rest..);
        // A byte-order mark says that the message is UTF-8.
        let message = if message.starts_with(b"\xef\xbb\xbf") { message.slice(3..) } else { message };
        Some(Record { format: Format::Rfc5424, time, host, app, process, kind, data, ..empty(priority, message) })
    }

    /// `-`, or elements in brackets, whose values are in quotes and may have escaped quotes and brackets. A space or the end of
    /// the message follows.
    fn structured_data(&mut self) -> Option<Option<String>> {
        let begin = self.at;
        if self.rest().starts_with(b"-") {
            self.at += 1;
        } else {
            let (mut inside, mut quoted, mut escaped) = (false, false, false);
            let is_after = |byte: u8| {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if quoted => escaped = true,
                    b'"' if inside => quoted = !quoted,
                    b'[' if !inside => inside = true,
                    b']' if inside && !quoted => inside = false,
                    _ => return !inside,
                }
                false
            };
            let rest = self.rest();
            let length = rest.iter().copied().position(is_after).unwrap_or(rest.len());
            if length == 0 || inside {
                return None;
            }
            self.at += length;
        }
        match self.rest().first() {
            None | Some(b' ') => Some(Some(self.text(begin..self.at)).filter(|data| data != "-")),
            Some(_) => None,
        }
    }

    /// `Oct 11 22:14:15 host app[123]: message`, of which everything may be missing.
    fn rfc3164(&mut self, priority: u8, received: i64, offset: i64) -> Record {
        let time = self.time(received, offset);
        let host = if time.is_some() { self.host() } else { None };
        let (app, process) = self.tag().unzip();
        let message = self.payload.slice(self.at..);
        Record { time, host, app, process: process.flatten(), ..empty(priority, message) }
    }

    /// The time of RFC 3164, or of RFC 3339 as rsyslog writes it, and the space after it.
    fn time(&mut self, received: i64, offset: i64) -> Option<i64> {
        let rest = self.rest();
        let (time, length) = match time::rfc3164(rest, received, offset) {
            Some((time, after)) => (time, rest.len() - after.len()),
            None => {
                let length = rest.iter().take(40).position(|byte| *byte == b' ').unwrap_or(rest.len().min(40));
                (time::rfc3339(&rest[..length])?, length)
            }
        };
        // Some senders put a colon after the time.
        let after = rest[length..].strip_prefix(b":").unwrap_or(&rest[length..]);
        let skipped = usize::from(after.first() == Some(&b' '));
        self.at = self.payload.len() - after.len() + skipped;
        Some(time)
    }

    /// The host, unless what follows is the tag already.
    fn host(&mut self) -> Option<String> {
        let rest = self.rest();
        let length = rest.iter().position(|byte| *byte == b' ').filter(|length| *length > 0)?;
        let word = &rest[..length];
        if word.ends_with(b":") || word.contains(&b'[') {
            return None;
        }
        let host = self.text(self.at..self.at + length);
        self.at += length + 1;
        Some(host)
    }

    /// `app[123]: ` or `app: `.
    fn tag(&mut self) -> Option<(String, Option<String>)> {
        let rest = self.rest();
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./".contains(byte);
        let length = rest.iter().take_while(|byte| is_name(byte)).count();
        let (process, end) = match rest.get(length)? {
            b':' => (None, length),
            b'[' => {
                let size = rest[length..].iter().take(130).position(|byte| *byte == b']')?;
                (Some(self.at + length + 1..self.at + length + size), length + size + 1)
            }
            _ => return None,
        };
        if length == 0 || rest.get(end) != Some(&b':') {
            return None;
        }
        let after = end + 1 + usize::from(rest.get(end + 1) == Some(&b' '));
        let app = self.text(self.at..self.at + length);
        let process = process.map(|range| self.text(range)).filter(|process| !process.is_empty());
        self.at += after;
        Some((app, process))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Record {
        parse(&Bytes::copy_from_slice(text.as_bytes()), 1_065_910_455_000_000, 0)
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn the_examples_of_rfc_5424() {
        let record =
            parsed("<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \u{feff}'su root' failed on /dev/pts/8");
        assert_eq!((record.format, record.facility, record.severity), (Format::Rfc5424, "auth", "crit"));
        assert_eq!(record.time, Some(1_065_910_455_003_000));
        assert_eq!((record.host, record.app), (some("mymachine.example.com"), some("su")));
        assert_eq!((record.process, record.kind, record.data), (None, some("ID47"), None));
        assert_eq!(record.message, "'su root' failed on /dev/pts/8");

        let data = r#"[exampleSDID@32473 iut="3" eventSource="App \"]\" x"][examplePriority@32473 class="high"]"#;
        for (rest, message) in [("", ""), (" ", ""), (" and so on", "and so on")] {
            let record = parsed(&format!("<165>1 - - evntslog - ID47 {data}{rest}"));
            assert_eq!((record.data.as_deref(), record.message.as_ref()), (Some(data), message.as_bytes()));
            assert_eq!((record.host, record.time), (None, None));
        }
    }

    #[test]
    fn rfc_3164_as_it_is_practised() {
        let time = Some(1_065_910_455_000_000);
        for (text, wanted) in [
            (
                "<34>Oct 11 22:14:15 mymachine su: 'su root' failed",
                (time, some("mymachine"), some("su"), None, "'su root' failed"),
            ),
            ("<13>Oct 11 22:14:15 10.1.2.3 sshd[42]: closed", (time, some("10.1.2.3"), some("sshd"), some("42"), "closed")),
            ("<13>Oct 11 22:14:15 sshd[42]: closed", (time, None, some("sshd"), some("42"), "closed")),
            ("<13>2003-10-11T22:14:15Z host app: text", (time, some("host"), some("app"), None, "text")),
            ("<13>Oct 11 22:14:15: %LINK-3-UPDOWN: up", (time, None, None, None, "%LINK-3-UPDOWN: up")),
            ("<13>app[1]: no time", (None, None, some("app"), some("1"), "no time")),
            ("<13>nothing that is known", (None, None, None, None, "nothing that is known")),
            ("<13>", (None, None, None, None, "")),
        ] {
            let record = parsed(text);
            assert_eq!(record.format, Format::Rfc3164, "{text}");
            let found =
                (record.time, record.host, record.app, record.process, std::str::from_utf8(&record.message).expect("text"));
            assert_eq!(found, wanted, "{text}");
        }
    }

    #[test]
    fn what_has_no_priority_is_all_message() {
        for text in ["no priority", "", "<>1 - - - - - -", "<192>x", "<1234>x", "<1a>x", "<13"] {
            let record = parsed(text);
            assert_eq!((record.format, record.message.as_ref()), (Format::Unknown, text.as_bytes()), "{text}");
            assert_eq!((record.facility, record.severity), ("user", "notice"));
        }
    }

    #[test]
    fn a_broken_header_of_rfc_5424_loses_nothing() {
        for text in ["<13>1 yesterday host app - - - text", "<13>1 - host", "<13>1 - - - - - [open text"] {
            let record = parsed(text);
            assert_eq!((record.format, record.message.as_ref()), (Format::Rfc3164, &text.as_bytes()[4..]), "{text}");
        }
    }

    /// Bytes that look like syslog more often than by chance.
    fn almost_syslog() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"<13>".to_vec()),
            Just(b"1 ".to_vec()),
            Just(b"- ".to_vec()),
            Just(b"2003-10-11T22:14:15.003Z ".to_vec()),
            Just(b"Oct 11 22:14:15 ".to_vec()),
            Just(b"[a b=\"\\\"]\"]".to_vec()),
            Just(b"host ".to_vec()),
            Just(b"app[1]: ".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..6),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

        #[test]
        fn any_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..200), received in any::<i64>()) {
            parse(&bytes.into(), received / 2, 0);
        }

        #[test]
        fn what_looks_like_syslog_is_parsed_and_its_message_kept(bytes in almost_syslog()) {
            let payload = Bytes::from(bytes);
            let record = parse(&payload, 1_065_910_455_000_000, 3600);
            prop_assert!(payload.ends_with(&record.message));
        }

        #[test]
        fn what_is_written_is_read(
            priority in 0u8..192,
            fields in proptest::collection::vec("[!-,.-~]{1,20}", 4),
            value in "[ -!#-Z^-~]{0,20}",
            message in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            prop_assume!(!message.starts_with(b"\xef\xbb\xbf"));
            let data = format!("[id@1 name=\"{value}\"]");
            let mut payload = format!("<{priority}>1 2003-10-11T22:14:15Z {} {data} ", fields.join(" ")).into_bytes();
            payload.extend(&message);
            let record = parse(&payload.into(), 0, 0);
            prop_assert_eq!(record.format, Format::Rfc5424);
            prop_assert_eq!(record.facility, FACILITIES[usize::from(priority) / 8]);
            prop_assert_eq!(record.severity, SEVERITIES[usize::from(priority) % 8]);
            prop_assert_eq!(vec![record.host, record.app, record.process, record.kind], fields.into_iter().map(Some).collect::<Vec<_>>());
            prop_assert_eq!(record.data, Some(data));
            prop_assert_eq!(record.message, message);
        }
    }
}
