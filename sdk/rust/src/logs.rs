//! The logs of a program on standard error, as all parts of Headrace write them: one line each, as JSON in one schema or for people.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::error::Error;

const FORMAT_VARIABLE: &str = "HEADRACE_LOG_FORMAT";
const VERBOSE_VARIABLE: &str = "HEADRACE_VERBOSE";
const OFF: [&str; 5] = ["", "0", "false", "no", "off"];
const SECONDS_OF_A_DAY: u64 = 86_400;

thread_local! {
    /// The spans that this thread is in, the innermost last.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// What `HEADRACE_LOG_FORMAT` may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Console,
    Json,
}

impl Format {
    /// The format that a value of the variable names; `None` for none.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if there is no such format.
    pub(crate) fn of(value: Option<&str>) -> Result<Option<Self>, Error> {
        match value {
            None | Some("") => Ok(None),
            Some("console") => Ok(Some(Self::Console)),
            Some("json") => Ok(Some(Self::Json)),
            Some(other) => Err(Error::Invalid(format!("{FORMAT_VARIABLE}: {other:?} is not console or json"))),
        }
    }

    fn of_process() -> Result<Option<Self>, Error> {
        Self::of(variable(FORMAT_VARIABLE).as_deref())
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Returns how much a program is to log. Where `HEADRACE_LOG_FORMAT` is set: [`INFO`](Level::INFO) if `HEADRACE_VERBOSE` is `1`, else
/// [`WARN`](Level::WARN), as `headrace connector run` sets both. Otherwise `INFO`, or `WARN` where `HEADRACE_VERBOSE` is `0`.
///
/// For a subscriber of your own; [`log_to_stderr`] obeys it.
#[must_use]
pub fn log_level() -> Level {
    let verbose = variable(VERBOSE_VARIABLE);
    let is_set = variable(FORMAT_VARIABLE).is_some_and(|value| !value.is_empty());
    let is_quiet = match verbose {
        None => is_set,
        Some(value) if is_set => OFF.contains(&value.trim().to_lowercase().as_str()),
        Some(value) => value == "0",
    };
    if is_quiet { Level::WARN } else { Level::INFO }
}

/// Writes what the program and the SDK log to standard error, up to [`log_level`]: as JSON where `HEADRACE_LOG_FORMAT` is `json`,
/// in the schema of all parts of Headrace, else for people. Does nothing if the program has set a subscriber of its own.
/// [`run`](crate::run) calls it; call it first in a program that logs before, or does not use `run`.
///
/// # Errors
///
/// [`Error::Invalid`] if `HEADRACE_LOG_FORMAT` names a format that does not exist.
pub fn log_to_stderr() -> Result<(), Error> {
    let format = Format::of_process()?.unwrap_or(Format::Console);
    if !tracing::dispatcher::has_been_set() {
        // Another thread may set one meanwhile; it wins.
        let _ = tracing::subscriber::set_global_default(Lines::new(format, log_level()));
    }
    Ok(())
}

/// Whether standard error is for lines of JSON only.
pub(crate) fn writes_json() -> bool {
    tracing::dispatcher::get_default(|dispatch| {
        dispatch.downcast_ref::<Lines>().is_some_and(|lines| lines.format == Format::Json)
    })
}

/// A field of a line: its name, and its value as text and as JSON.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) value: Value,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    /// A number or a boolean, which is written as it is.
    Plain(String),
}

/// A subscriber that writes lines.
#[derive(Debug)]
struct Lines {
    format: Format,
    least: Level,
    last_id: AtomicU64,
    spans: Mutex<HashMap<u64, Span>>,
}

/// A span that is not closed.
#[derive(Debug)]
struct Span {
    references: usize,
    /// Its own, after the fields of the spans around it.
    fields: Vec<Named>,
}

impl Lines {
    fn new(format: Format, least: Level) -> Self {
        Self { format, least, last_id: AtomicU64::new(0), spans: Mutex::default() }
    }

    fn spans(&self) -> MutexGuard<'_, HashMap<u64, Span>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fields of a span, or of the one that this thread is in.
    fn fields_of(&self, span: Option<&Id>) -> Vec<Named> {
        let id = span.map(Id::into_u64).or_else(|| ENTERED.with_borrow(|entered| entered.last().copied()));
        id.and_then(|id| self.spans().get(&id).map(|span| span.fields.clone())).unwrap_or_default()
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.least
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(self.least.into())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields(if attributes.is_root() { Vec::new() } else { self.fields_of(attributes.parent()) });
        attributes.record(&mut fields);
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.spans().insert(id, Span { references: 1, fields: fields.0 });
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        if let Some(span) = self.spans().get_mut(&id.into_u64()) {
            let mut fields = Fields(std::mem::take(&mut span.fields));
            values.record(&mut fields);
            span.fields = fields.0;
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(if event.is_root() { Vec::new() } else { self.fields_of(event.parent()) });
        event.record(&mut fields);
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = line(self.format, at, event.metadata(), fields.0);
        // Nobody can be told that standard error is closed.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            if let Some(place) = entered.iter().rposition(|entered| *entered == id.into_u64()) {
                entered.remove(place);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = self.spans().get_mut(&id.into_u64()) {
            span.references += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = self.spans();
        let Some(span) = spans.get_mut(&id.into_u64()) else { return false };
        span.references -= 1;
        span.references == 0 && spans.remove(&id.into_u64()).is_some()
    }
}

/// Collects fields; the last one of a name wins.
struct Fields(Vec<Named>);

impl Fields {
    fn set(&mut self, field: &Field, value: Value) {
        self.0.retain(|named| named.name != field.name());
        self.0.push(Named { name: field.name(), value });
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, Value::Text(value.to_owned()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.set(field, Value::Text(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Value::Plain(value.to_string()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::Plain(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Value::Plain(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let text = value.to_string();
        self.set(field, if value.is_finite() { Value::Plain(text) } else { Value::Text(text) });
    }
}

/// The line of an event, which is in the field `message`.
fn line(format: Format, at: Duration, metadata: &Metadata<'_>, mut fields: Vec<Named>) -> String {
    let place = fields.iter().position(|named| named.name == "message");
    let event = match place.map(|place| fields.remove(place).value) {
        Some(Value::Text(text) | Value::Plain(text)) => text,
        None => String::new(),
    };
    match format {
        Format::Console => console_line(at, *metadata.level(), &event, &fields),
        Format::Json => json_line(at, *metadata.level(), &logger_of(metadata.target()), &event, &fields),
    }
}

/// The component that logs.
fn logger_of(target: &str) -> String {
    let (krate, _) = target.split_once("::").unwrap_or((target, ""));
    if krate == "headrace" { "headrace.sdk".to_owned() } else { target.replace("::", ".") }
}

/// A line of JSON: the four fields that every line has, and then the fields of the event.
pub(crate) fn json_line(at: Duration, level: Level, logger: &str, event: &str, fields: &[Named]) -> String {
    let timestamp = format!("{}.{:06}Z", date_and_time(at.as_secs()), at.subsec_micros());
    let head = [("timestamp", timestamp.as_str()), ("level", level_name(level)), ("logger", logger), ("event", event)];
    let mut line = String::from("{");
    for (name, value) in head {
        let _ = write!(line, "{}{}: {}", if line.len() > 1 { ", " } else { "" }, quoted(name), quoted(value));
    }
    for Named { name, value } in fields.iter().filter(|named| head.iter().all(|(name, _)| *name != named.name)) {
        let value = match value {
            Value::Text(text) => quoted(text),
            Value::Plain(text) => text.clone(),
        };
        let _ = write!(line, ", {}: {value}", quoted(name));
    }
    line.push_str("}\n");
    line
}

/// A line for people, such as `2026-01-31T12:00:00.250Z WARNING: position lost stream=orders/0`.
pub(crate) fn console_line(at: Duration, level: Level, event: &str, fields: &[Named]) -> String {
    let mut line = format!("{}.{:03}Z {}: ", date_and_time(at.as_secs()), at.subsec_millis(), level_name(level).to_uppercase());
    line.extend(event.chars().map(printable));
    for Named { name, value: Value::Text(text) | Value::Plain(text) } in fields {
        let is_word = !text.is_empty() && !text.contains(|found: char| found.is_whitespace() || "\"'=".contains(found));
        let text = if is_word { text.chars().map(printable).collect() } else { quoted(text) };
        let _ = write!(line, " {name}={text}");
    }
    line.push('\n');
    line
}

/// What replaces a character that would control a terminal, or end the line.
fn printable(character: char) -> char {
    if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') { '\u{fffd}' } else { character }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        _ => "debug",
    }
}

/// A text as a string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ if character.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// A time in UTC, in seconds since 1970, such as `2026-01-31T12:00:00`.
fn date_and_time(seconds: u64) -> String {
    let (days, second) = (seconds / SECONDS_OF_A_DAY, seconds % SECONDS_OF_A_DAY);
    // Years that begin in March have the leap day at their end; 400 of them have 146,097 days, and 0000-03-01 is day -719,468.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}
