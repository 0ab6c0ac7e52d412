//! Lines of the log: JSON in the schema of all parts, and for people.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tracing::Level;

use crate::logs::{Format, Named, Value, console_line, json_line};

const NOON: Duration = Duration::from_micros(1_772_366_400_250_007);

fn fields() -> Vec<Named> {
    vec![
        Named { name: "stream", value: Value::Text("orders/0".to_owned()) },
        Named { name: "error", value: Value::Text("no \"route\"\n\u{1b}[1m".to_owned()) },
        Named { name: "after", value: Value::Plain("7".to_owned()) },
        Named { name: "level", value: Value::Text("of the sea".to_owned()) },
    ]
}

#[test]
fn a_line_of_json_has_the_head_and_its_own_fields() {
    let line = json_line(NOON, Level::WARN, "headrace.sdk", "it's lost", &fields());
    let document: Json = serde_json::from_str(&line).expect("JSON");
    let want = json!({
        "timestamp": "2026-03-01T12:00:00.250007Z", "level": "warning", "logger": "headrace.sdk", "event": "it's lost",
        "stream": "orders/0", "error": "no \"route\"\n\u{1b}[1m", "after": 7,
    });
    assert_eq!(document, want);
    assert_eq!(line.lines().count(), 1);
}

#[test]
fn a_line_for_people_has_the_time_the_level_and_the_fields() {
    let line = console_line(NOON, Level::ERROR, "lost\n\u{7}", &fields()[..2]);
    let want = "2026-03-01T12:00:00.250Z ERROR: lost\u{fffd}\u{fffd} stream=orders/0 error=\"no \\\"route\\\"\\n\\u001b[1m\"\n";
    assert_eq!(line, want);
}

#[test]
fn days_before_and_after_a_leap_day() {
    for (seconds, want) in
        [(0, "1970-01-01T00:00:00"), (951_782_400, "2000-02-29T00:00:00"), (1_709_251_199, "2024-02-29T23:59:59")]
    {
        assert!(console_line(Duration::from_secs(seconds), Level::INFO, "", &[]).starts_with(want), "{want}");
    }
}

#[test]
fn a_format_that_does_not_exist_is_an_error() {
    assert_eq!(Format::of(Some("json")).expect("valid"), Some(Format::Json));
    assert_eq!(Format::of(Some("")).expect("valid"), None);
    let error = Format::of(Some("xml")).expect_err("an error").to_string();
    assert!(error.contains("HEADRACE_LOG_FORMAT: \"xml\" is not console or json"), "{error}");
}
