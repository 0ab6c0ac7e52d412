//! Sends messages of 61 bytes for `headrace bench sdks`: `numbers COUNT [RATE]`. Without a rate, it sends them as fast as they
//! are accepted. It prints one JSON object with what it measured.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use async_stream::try_stream;
use futures_util::Stream;
use headrace::{BoxError, Connector, Item, Message, Position, ReadError, Source, run};
use serde_json::json;

const VALUE: &[u8] = &[b'm'; 61];
/// How many messages have their times kept.
const KEPT: usize = 8192;

struct Numbers {
    count: u64,
    /// Messages per second; `None` for as many as possible.
    rate: Option<f64>,
    times: Arc<Times>,
}

struct Times {
    began: OnceLock<Instant>,
    paced: Mutex<Paced>,
}

struct Paced {
    settled: u64,
    sent: Vec<Instant>,
    latency_ms: Vec<f64>,
}

impl Source for Numbers {
    type Token = ();

    fn name(&self) -> &str {
        "numbers-rust"
    }

    fn read(&self, _: &str, position: Option<Position>) -> impl Stream<Item = Result<Item, ReadError>> + Send {
        try_stream! {
            let first = position.map_or(0, |position| position.sequence) + 1;
            let began = *self.times.began.get_or_init(Instant::now);
            for n in first..=self.count {
                if let Some(rate) = self.rate {
                    let due = began + Duration::from_secs_f64((n - first) as f64 / rate);
                    if Instant::now() < due {
                        yield Item::CaughtUp;
                        tokio::time::sleep_until(due.into()).await;
                    }
                    self.times.paced.lock().expect("no thread panics").sent[n as usize % KEPT] = Instant::now();
                }
                yield Message::new(VALUE).sequence(n).into();
            }
        }
    }

    async fn acknowledged(&self, _: &str, position: &Position) -> Result<(), BoxError> {
        if self.rate.is_some() {
            let mut paced = self.times.paced.lock().expect("no thread panics");
            while paced.settled < position.sequence {
                paced.settled += 1;
                let at = paced.settled as usize % KEPT;
                paced.latency_ms[at] = paced.sent[at].elapsed().as_secs_f64() * 1000.0;
            }
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Option<Vec<f64>> = std::env::args().skip(1).map(|argument| argument.parse().ok()).collect();
    let Some((count, rate)) = arguments.as_deref().and_then(|given| Some((*given.first()? as u64, given.get(1).copied()))) else {
        eprintln!("usage: numbers COUNT [RATE]");
        return ExitCode::from(2);
    };
    let paced = Paced { settled: 0, sent: vec![Instant::now(); KEPT], latency_ms: vec![0.0; KEPT] };
    let times = Arc::new(Times { began: OnceLock::new(), paced: Mutex::new(paced) });
    let code = run(Connector::source(Numbers { count, rate, times: Arc::clone(&times) })).await;
    let seconds = times.began.get().map(|began| began.elapsed().as_secs_f64());
    let mut measured = json!({"messages": count, "seconds": seconds});
    if rate.is_some() {
        let mut latencies = times.paced.lock().expect("no thread panics").latency_ms[..KEPT.min(count as usize)].to_vec();
        latencies.sort_by(f64::total_cmp);
        measured["ack_p50_ms"] = latencies.get(latencies.len() / 2).copied().into();
    }
    println!("{measured}");
    code
}
