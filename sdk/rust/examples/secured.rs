//! A source that ends after ten messages, over mutual TLS: `secured CA CERTIFICATE KEY`, each a PEM file; without arguments, as
//! the environment says.

use std::fs;
use std::process::ExitCode;

use futures_util::stream::{self, Stream};
use headrace::{BoxError, Connector, Item, Message, Position, ReadError, Source, Tls, run};

struct Countdown;

impl Source for Countdown {
    type Token = ();

    fn name(&self) -> &str {
        "countdown"
    }

    fn read(&self, _: &str, position: Option<Position>) -> impl Stream<Item = Result<Item, ReadError>> + Send {
        let done = position.map_or(0, |position| position.sequence);
        stream::iter((done + 1..=10).map(|sequence| Ok(Message::new(format!("{}", 11 - sequence)).sequence(sequence).into())))
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode, BoxError> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let connector = match files.as_slice() {
        [] => Connector::source(Countdown),
        [ca, certificate, key] => Connector::source(Countdown).tls(Tls {
            ca: Some(fs::read(ca)?),
            identity: Some((fs::read(certificate)?, fs::read(key)?)),
            server_name: None,
        }),
        _ => return Err("usage: secured [CA CERTIFICATE KEY]".into()),
    };
    Ok(run(connector).await)
}
