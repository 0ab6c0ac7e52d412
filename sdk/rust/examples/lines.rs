//! A source that sends the lines of a file, also appended ones: `lines FILE`.
//!
//! The sequence of a line is where it ends in the file, so a position says where to seek.

use std::process::ExitCode;
use std::time::Duration;

use async_stream::try_stream;
use futures_util::Stream;
use headrace::{BoxError, Connector, Item, Message, Position, ReadError, Source, run};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncSeekExt, BufReader, SeekFrom};

struct Lines {
    path: String,
}

impl Source for Lines {
    type Token = ();

    fn name(&self) -> &str {
        "lines"
    }

    fn read(&self, _: &str, position: Option<Position>) -> impl Stream<Item = Result<Item, ReadError>> + Send {
        try_stream! {
            let mut end = position.map_or(0, |position| position.sequence);
            let mut file = File::open(&self.path).await?;
            let length = file.metadata().await?.len();
            if length < end {
                Err(format!("{} has {length} bytes, but {end} were read before: it was truncated", self.path))?;
            }
            file.seek(SeekFrom::Start(end)).await?;
            let mut file = BufReader::new(file);
            let mut line = Vec::new();
            loop {
                file.read_until(b'\n', &mut line).await?;
                if line.ends_with(b"\n") {
                    end += line.len() as u64;
                    line.pop();
                    yield Message::new(std::mem::take(&mut line)).sequence(end).into();
                } else {
                    yield Item::CaughtUp;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn acknowledged(&self, _: &str, position: &Position) -> Result<(), BoxError> {
        tracing::info!("the first {} bytes are in the checkpoint", position.sequence);
        Ok(())
    }

    /// Where a source ends the connection that it holds.
    async fn close(&self) -> Result<(), BoxError> {
        eprintln!("the source is closed");
        Ok(())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: lines FILE");
        return ExitCode::from(2);
    };
    run(Connector::source(Lines { path })).await
}
