//! The vectors of conformance/vectors.

use std::time::Duration;

use prost::Message as _;
use tonic::{Code, Status};

use super::json::{columns, frame, unhex, vectors};
use crate::address::leads_here;
use crate::backoff::Backoff;
use crate::columns::Columns;
use crate::ending::{ending_of, reconnects};
use crate::names::{check_sink_name, check_text, stream_name};
use crate::protocol as pb;

#[test]
fn frames_are_encoded_and_decoded_byte_for_byte() {
    let cases = vectors("frames.json");
    for case in cases["valid"].as_array().expect("cases") {
        let (name, hex) = (&case["name"], unhex(case["hex"].as_str().expect("hex")));
        let (bytes, expected) = match case["message"].as_str() {
            Some("PartFrame") => {
                let part = pb::PartFrame::decode(hex.clone()).expect("a message");
                (part.frame.expect("a frame").encode_to_vec(), &case["columns"])
            }
            _ => (hex.to_vec(), &case["columns"]),
        };
        let decoded = pb::Frame::decode(bytes.as_slice()).expect("a frame");
        for (column, wanted) in expected.as_object().expect("columns") {
            assert_eq!(&columns(&decoded)[column], wanted, "{name}: {column}");
        }
        if case["decode_only"] != true {
            assert_eq!(frame(expected).encode_to_vec(), bytes, "{name}");
        }
    }
}

#[test]
fn frames_with_broken_columns_are_refused() {
    let cases = vectors("frames.json");
    for case in cases["invalid"].as_array().expect("cases") {
        let rule = case["rule"].as_str().expect("a rule");
        let number: u32 = rule.strip_prefix("FRM-").and_then(|number| number.parse().ok()).unwrap_or(0);
        if !(3..=11).contains(&number) || case["message"].as_str().is_some_and(|message| message != "Frame") {
            continue;
        }
        let decoded = pb::Frame::decode(unhex(case["hex"].as_str().expect("hex")));
        assert!(decoded.is_err_and(|_| true) || is_refused(case), "{}: {rule}", case["name"]);
    }
}

fn is_refused(case: &serde_json::Value) -> bool {
    let decoded = pb::Frame::decode(unhex(case["hex"].as_str().expect("hex")));
    decoded.is_ok_and(|frame| Columns::read(&frame).is_err())
}

#[test]
fn addresses_of_this_machine_are_known() {
    let found = vectors("addresses.json");
    let cases = found["addresses"]["cases"].as_array().expect("cases");
    assert!(!cases.is_empty());
    for case in cases {
        let address = case["address"].as_str().expect("an address");
        assert_eq!(leads_here(address), case["here"] == true, "{address}");
    }
}

#[test]
fn names_are_checked_before_they_are_sent() {
    let groups = vectors("names.json");
    let cases = |group: &str| groups[group]["cases"].as_array().expect("cases").clone();
    for case in cases("names") {
        let name = case["name"].as_str().expect("a name");
        assert_eq!(check_sink_name(name).is_ok(), case["valid"] == true, "sink {name:?}");
    }
    for case in cases("streams") {
        let name = case["name"].as_str().expect("a name");
        let valid = name.split_once('/').is_some_and(|(source, partition)| stream_name(source, partition).is_ok());
        assert_eq!(valid, case["valid"] == true, "stream {name:?}");
    }
    for case in cases("instances") {
        let name = case["name"].as_str().expect("a name");
        assert_eq!(check_text("instance", name).is_ok(), case["valid"] == true, "instance {name:?}");
    }
}

#[test]
fn the_end_of_a_session_decides_whether_to_reconnect() {
    for case in vectors("errors.json")["cases"].as_array().expect("cases") {
        let code = Code::from_i32(case["code"].as_i64().expect("a code") as i32);
        let details = case["details_hex"].as_str().map(unhex).unwrap_or_default();
        let ending = ending_of(&Status::with_details(code, case["text"].as_str().unwrap_or_default(), details));
        assert_eq!(ending.status, case["status"].as_str().expect("a status"));
        assert_eq!(reconnects(&ending), case["reconnect"] == true, "{}", case["name"]);
        if case["domain"] == "headrace" {
            assert_eq!(ending.reason.as_deref(), case["reason"].as_str());
            assert_eq!(serde_json::to_value(&ending.metadata).expect("JSON"), case["metadata"]);
        }
    }
}

#[test]
fn waits_are_spread_evenly_below_a_bound_that_doubles() {
    for case in vectors("backoff.json")["cases"].as_array().expect("cases") {
        let millis = |value: &serde_json::Value| Duration::from_secs_f64(value.as_f64().expect("ms") / 1000.0);
        let mut backoff = Backoff::new(millis(&case["first_ms"]), millis(&case["max_ms"]));
        let mut attempt = 1;
        for bound in case["bounds"].as_array().expect("bounds").iter().filter(|bound| bound["attempt"].as_u64() < Some(10_000)) {
            while attempt < bound["attempt"].as_u64().expect("an attempt") {
                backoff.next_wait();
                attempt += 1;
            }
            assert_eq!(backoff.bound(), millis(&bound["bound_ms"]), "attempt {attempt}");
        }
        let longest = millis(&case["max_ms"]);
        let mut backoff = Backoff::new(longest, longest);
        let waits: Vec<Duration> = (0..5000).map(|_| backoff.next_wait()).collect();
        assert!(waits.iter().all(|wait| *wait <= longest));
        assert!(waits.iter().any(|wait| *wait < longest / 100));
        assert!(waits.iter().any(|wait| *wait > longest * 99 / 100));
    }
}
