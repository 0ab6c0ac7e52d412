//! A sink that appends lines to gzip files, exactly once: see README.md.

mod durable;
mod label;
mod member;
mod name;
mod options;
mod store;

use std::io;
use std::process::ExitCode;

use headrace::{BoxError, Connector, Outcomes, Part, PartRows, Recovered, Transaction, TwoPhaseSink, run};
use tokio::task::block_in_place;

use crate::options::{Options, USAGE};
use crate::store::{Rotation, Store};

struct Archive {
    name: String,
    store: Store,
}

impl TwoPhaseSink for Archive {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn stage(&self, part: &Part, mut rows: PartRows<'_>) -> Result<Outcomes, BoxError> {
        // Compressing and writing takes time, in which other parts continue.
        let (mut file, path) = block_in_place(|| self.store.begin(part))?;
        let mut outcomes = Outcomes::all_written();
        while let Some(rows) = rows.next().await? {
            block_in_place(|| {
                for row in rows.iter() {
                    match row.value {
                        Some(value) if !value.contains(&b'\n') => file.write(value)?,
                        Some(_) => outcomes.refuse(row.sequence, "it has more than one line"),
                        None => outcomes.refuse(row.sequence, "null is not a line"),
                    }
                }
                io::Result::Ok(())
            })?;
        }
        block_in_place(|| file.finish(&path))?;
        Ok(outcomes)
    }

    async fn drop_part(&self, part: &Part) -> Result<(), BoxError> {
        Ok(block_in_place(|| self.store.drop_part(part))?)
    }

    async fn prepare(&self, transaction: &Transaction, parts: &[Part]) -> Result<(), BoxError> {
        block_in_place(|| self.store.prepare(transaction, parts))
    }

    async fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        block_in_place(|| self.store.commit(transaction))
    }

    async fn abort(&self, transaction: &Transaction) -> Result<(), BoxError> {
        block_in_place(|| self.store.abort(transaction))
    }

    async fn recover(&self) -> Result<Recovered, BoxError> {
        block_in_place(|| self.store.recover())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("Error: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let rotation = Rotation { bytes: options.rotate_bytes, age: options.rotate_after };
    match Store::open(&options.folder, rotation) {
        Ok(store) => run(Connector::two_phase_sink(Archive { name: options.sink, store })).await,
        Err(error) => {
            eprintln!("Error: {}: {error}", options.folder.display());
            ExitCode::FAILURE
        }
    }
}
