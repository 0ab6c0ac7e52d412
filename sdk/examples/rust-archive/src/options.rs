//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub const USAGE: &str = "\
usage: rust-archive FOLDER [OPTIONS]

  --sink NAME           the name of the sink (default: archive)
  --rotate-bytes N      begin a new file when it would be larger (default: 16777216)
  --rotate-seconds N    begin a new file when the last one is older (default: 3600)";

#[derive(Debug, PartialEq)]
pub struct Options {
    pub folder: PathBuf,
    pub sink: String,
    pub rotate_bytes: u64,
    pub rotate_after: Duration,
}

impl Options {
    /// Parses the arguments of the program.
    ///
    /// # Errors
    ///
    /// A text that says what is wrong.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut folder, mut sink, mut rotate_bytes, mut rotate_after) =
            (None, "archive".to_owned(), 16 << 20, Duration::from_secs(3600));
        while let Some(argument) = arguments.next() {
            if !argument.starts_with("--") && folder.is_none() {
                folder = Some(PathBuf::from(argument));
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--sink" => sink = value?,
                "--rotate-bytes" => rotate_bytes = number(&argument, &value?)?,
                "--rotate-seconds" => rotate_after = Duration::from_secs(number(&argument, &value?)?),
                _ => return Err(format!("unknown argument {argument}")),
            }
        }
        Ok(Self { folder: folder.ok_or("give the folder of the archive")?, sink, rotate_bytes, rotate_after })
    }
}

fn number(name: &str, value: &str) -> Result<u64, String> {
    value.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("{name} {value}: want a number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_parsed() {
        let options = parse("out --sink lines --rotate-bytes 1000 --rotate-seconds 60").expect("valid");
        assert_eq!((options.folder, options.sink.as_str()), ("out".into(), "lines"));
        assert_eq!((options.rotate_bytes, options.rotate_after), (1000, Duration::from_secs(60)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, wanted) in [
            ("", "give the folder of the archive"),
            ("out --sink", "--sink needs a value"),
            ("out --size 5", "unknown argument --size"),
            ("out --rotate-bytes 0", "--rotate-bytes 0: want a number above 0"),
        ] {
            assert_eq!(parse(text), Err(wanted.to_owned()));
        }
    }
}
