//! A sink that writes lines to files, exactly once: `files FOLDER`.
//!
//! Each transaction becomes the folder `batch-BATCH-of-PIPELINE`, with a file for each Spark task. It gets there by renaming:
//! from `.staged`, where parts are written, to `.prepared` with the vote, and to its place with the commit. A rename is atomic,
//! so a crash leaves a transaction in one of the three, and nothing has to be repaired.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use headrace::{BoxError, Connector, Outcomes, Part, PartRows, Recovered, Transaction, TwoPhaseSink, run};
use tokio::io::{AsyncWriteExt, BufWriter};

struct Files {
    folder: PathBuf,
}

impl TwoPhaseSink for Files {
    fn name(&self) -> &str {
        "files"
    }

    async fn stage(&self, part: &Part, mut rows: PartRows<'_>) -> Result<Outcomes, BoxError> {
        let folder = self.staged(&part.transaction);
        fs::create_dir_all(&folder)?;
        sync(&self.folder.join(".staged"))?;
        // Until it is complete, it has another name.
        let partial = folder.join(format!("{}.partial", part_name(part)));
        let mut file = BufWriter::new(tokio::fs::File::create(&partial).await?);
        let mut outcomes = Outcomes::all_written();
        while let Some(rows) = rows.next().await? {
            for row in rows.iter() {
                match row.value {
                    Some(value) if !value.contains(&b'\n') => {
                        file.write_all(value).await?;
                        file.write_all(b"\n").await?;
                    }
                    Some(_) => outcomes.refuse(row.sequence, "it has more than one line"),
                    None => outcomes.refuse(row.sequence, "null is not a line"),
                }
            }
        }
        file.flush().await?;
        file.get_ref().sync_all().await?;
        fs::rename(&partial, folder.join(part_name(part)))?;
        sync(&folder)?;
        Ok(outcomes)
    }

    async fn drop_part(&self, part: &Part) -> Result<(), BoxError> {
        for folder in [self.staged(&part.transaction), self.prepared(&part.transaction)] {
            gone(fs::remove_file(folder.join(part_name(part))))?;
            gone(fs::remove_file(folder.join(format!("{}.partial", part_name(part)))))?;
        }
        Ok(())
    }

    async fn prepare(&self, transaction: &Transaction, parts: &[Part]) -> Result<(), BoxError> {
        let (staged, prepared) = (self.staged(transaction), self.prepared(transaction));
        if staged.exists() && prepared.exists() {
            // Another run of the query has staged the batch again: what the first one has prepared does not count, unless it is
            // named.
            for name in names(&prepared)? {
                fs::rename(prepared.join(&name), staged.join(&name))?;
            }
            fs::remove_dir(&prepared)?;
        }
        let folder = if prepared.exists() { &prepared } else { &staged };
        let counting: Vec<String> = parts.iter().map(part_name).collect();
        for name in names(folder)?.into_iter().filter(|name| !counting.contains(name)) {
            fs::remove_file(folder.join(name))?;
        }
        if let Some(missing) = counting.iter().find(|name| !folder.join(name).exists()) {
            return Err(format!("the part {missing} is missing in {}", folder.display()).into());
        }
        if staged.exists() {
            rename(&staged, &prepared)?;
        }
        Ok(())
    }

    async fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        let visible = self.folder.join(format!("batch-{}-of-{}", transaction.batch, escaped(&transaction.pipeline)));
        if visible.exists() {
            return Ok(());
        }
        rename(&self.prepared(transaction), &visible)?;
        Ok(())
    }

    async fn abort(&self, transaction: &Transaction) -> Result<(), BoxError> {
        gone(fs::remove_dir_all(self.staged(transaction)))?;
        gone(fs::remove_dir_all(self.prepared(transaction)))?;
        Ok(())
    }

    async fn recover(&self) -> Result<Recovered, BoxError> {
        let mut recovered = Recovered::default();
        for (place, is_prepared) in [(".staged", false), (".prepared", true)] {
            let place = self.folder.join(place);
            fs::create_dir_all(&place)?;
            for name in names(&place)? {
                let Some(transaction) = transaction_of(&name) else { continue };
                let parts = names(&place.join(&name))?.into_iter().filter_map(|part| part_of(&part, &transaction));
                recovered.staged.extend(parts);
                if is_prepared {
                    recovered.prepared.push(transaction);
                }
            }
        }
        let mut committed: Vec<Transaction> = names(&self.folder)?.iter().filter_map(|name| transaction_of(name)).collect();
        committed.sort();
        committed.reverse();
        committed.dedup_by(|earlier, last| earlier.pipeline == last.pipeline);
        recovered.committed = committed;
        Ok(recovered)
    }
}

impl Files {
    fn staged(&self, transaction: &Transaction) -> PathBuf {
        self.folder.join(".staged").join(transaction_name(transaction))
    }

    fn prepared(&self, transaction: &Transaction) -> PathBuf {
        self.folder.join(".prepared").join(transaction_name(transaction))
    }
}

fn transaction_name(transaction: &Transaction) -> String {
    format!("batch-{}-of-{}", transaction.batch, escaped(&transaction.pipeline))
}

fn transaction_of(name: &str) -> Option<Transaction> {
    let (batch, pipeline) = name.strip_prefix("batch-")?.split_once("-of-")?;
    Some(Transaction { pipeline: unescaped(pipeline)?, batch: batch.parse().ok()? })
}

fn part_name(part: &Part) -> String {
    format!("part-{}-{}", part.partition, escaped(&part.attempt))
}

/// The part of a file's name; none if it is not complete.
fn part_of(name: &str, transaction: &Transaction) -> Option<Part> {
    let (partition, attempt) = name.strip_prefix("part-")?.split_once('-')?;
    Some(Part { transaction: transaction.clone(), partition: partition.parse().ok()?, attempt: unescaped(attempt)? })
}

/// Text as part of a file's name: letters, digits, `-` and `_` stay, other bytes become `%` and their code.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02x}"),
    };
    text.bytes().map(escape).collect()
}

fn unescaped(name: &str) -> Option<String> {
    let mut pieces = name.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    if bytes.contains(&b'.') {
        return None;
    }
    for piece in pieces {
        bytes.push(u8::from_str_radix(piece.get(..2)?, 16).ok()?);
        bytes.extend(piece.get(2..).filter(|rest| !rest.contains('.'))?.bytes());
    }
    String::from_utf8(bytes).ok()
}

/// The names in a folder; none if it does not exist.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Renames a folder durably.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    [from, to].into_iter().filter_map(Path::parent).try_for_each(sync)
}

/// Makes the names in a folder durable.
fn sync(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

/// What does not exist need not be removed.
fn gone(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: files FOLDER");
        return ExitCode::from(2);
    };
    run(Connector::two_phase_sink(Files { folder: folder.into() })).await
}
