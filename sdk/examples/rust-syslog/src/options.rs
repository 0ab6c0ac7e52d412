//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::time;

pub const USAGE: &str = "\
usage: rust-syslog [--udp HOST:PORT] [--tcp HOST:PORT] [OPTIONS]

  --source NAME             the stream is NAME/0 (default: syslog)
  --buffer-bytes N          how much may wait for the checkpoint (default: 67108864)
  --max-message-bytes N     the largest message over TCP (default: 65536)
  --max-clients N           how many clients may be connected over TCP (default: 1000)
  --utc-offset OFFSET       the zone of times without one, such as +02:00 (default: Z)
  --drain-seconds N         how long to wait for the checkpoint when stopped (default: 10)
  --addresses FILE          write the addresses to this file, once it listens on them";

#[derive(Debug, PartialEq)]
pub struct Options {
    pub udp: Option<String>,
    pub tcp: Option<String>,
    pub source: String,
    pub buffer_bytes: usize,
    pub max_message_bytes: usize,
    pub max_clients: usize,
    pub offset: i64,
    pub drain: Duration,
    pub addresses: Option<PathBuf>,
}

impl Options {
    /// Parses the arguments of the program.
    ///
    /// # Errors
    ///
    /// A text that says what is wrong.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            udp: None,
            tcp: None,
            source: "syslog".to_owned(),
            buffer_bytes: 64 << 20,
            max_message_bytes: 64 << 10,
            max_clients: 1000,
            offset: 0,
            drain: Duration::from_secs(10),
            addresses: None,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--udp" => options.udp = Some(value?),
                "--tcp" => options.tcp = Some(value?),
                "--source" => options.source = value?,
                // A permit of a semaphore stands for a byte of the buffer.
                "--buffer-bytes" => options.buffer_bytes = number(&name, &value?, 1024..=u32::MAX as usize)?,
                "--max-message-bytes" => options.max_message_bytes = number(&name, &value?, 1..=1 << 30)?,
                "--max-clients" => options.max_clients = number(&name, &value?, 1..=1_000_000)?,
                "--utc-offset" => {
                    let value = value?;
                    let offset = time::zone(value.as_bytes());
                    options.offset = offset.ok_or_else(|| format!("--utc-offset {value}: want Z or +HH:MM"))?;
                }
                "--drain-seconds" => options.drain = Duration::from_secs(number(&name, &value?, 0..=3600)? as u64),
                "--addresses" => options.addresses = Some(value?.into()),
                _ => return Err(format!("unknown option {name}")),
            }
        }
        if options.udp.is_none() && options.tcp.is_none() {
            return Err("give --udp, --tcp or both".to_owned());
        }
        Ok(options)
    }
}

fn number(name: &str, value: &str, range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{name} {value}: want a number from {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_parsed() {
        let options = parse("--udp :514 --tcp [::1]:601 --buffer-bytes 2048 --utc-offset -07:00").expect("valid");
        assert_eq!((options.udp.as_deref(), options.tcp.as_deref()), (Some(":514"), Some("[::1]:601")));
        assert_eq!((options.buffer_bytes, options.offset), (2048, -7 * 3600));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, wanted) in [
            ("", "give --udp, --tcp or both"),
            ("--udp", "--udp needs a value"),
            ("--port 514", "unknown option --port"),
            ("--udp :514 --buffer-bytes 5", "--buffer-bytes 5: want a number from 1024 to 4294967295"),
            ("--udp :514 --utc-offset CET", "--utc-offset CET: want Z or +HH:MM"),
        ] {
            assert_eq!(parse(text), Err(wanted.to_owned()));
        }
    }
}
