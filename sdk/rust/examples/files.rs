//! A sink that writes lines to files, exactly once: `files FOLDER`.
//!
//! Each transaction becomes the folder `batch-BATCH-of-PIPELINE`, with a file for each Spark task. It gets there by renaming:
//! from `.staged`, where parts are written, to `.prepared` with the vote, and to its place with the commit. A rename is atomic,
//! so a crash leaves a transaction in one of the three, and nothing has to be repaired. Names that are too long for a file are
//! replaced by a hash, and kept in `.names`.

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
        self.keep_name(&part.transaction.pipeline)?;
        self.keep_name(&part.attempt)?;
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
        // What was removed must not come back after a crash: it would be committed.
        sync(folder)?;
        if staged.exists() {
            rename(&staged, &prepared)?;
        }
        Ok(())
    }

    async fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        let visible = self.folder.join(transaction_name(transaction));
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
                let Some(transaction) = self.transaction_of(&name)? else { continue };
                for part in names(&place.join(&name))? {
                    recovered.staged.extend(self.part_of(&part, &transaction)?);
                }
                if is_prepared {
                    recovered.prepared.push(transaction);
                }
            }
        }
        let mut committed = Vec::new();
        for name in names(&self.folder)? {
            committed.extend(self.transaction_of(&name)?);
        }
        committed.sort();
        committed.reverse();
        committed.dedup_by(|earlier, last| earlier.pipeline == last.pipeline);
        recovered.committed = committed;
        Ok(recovered)
    }

    async fn close(&self) -> Result<(), BoxError> {
        eprintln!("the sink is closed");
        Ok(())
    }
}

impl Files {
    fn staged(&self, transaction: &Transaction) -> PathBuf {
        self.folder.join(".staged").join(transaction_name(transaction))
    }

    fn prepared(&self, transaction: &Transaction) -> PathBuf {
        self.folder.join(".prepared").join(transaction_name(transaction))
    }
    /// The transaction of a folder's name; none if it is the name of something else.
    fn transaction_of(&self, name: &str) -> io::Result<Option<Transaction>> {
        let Some((batch, pipeline)) = name.strip_prefix("batch-").and_then(|name| name.split_once("-of-")) else {
            return Ok(None);
        };
        let Ok(batch) = batch.parse() else { return Ok(None) };
        Ok(self.unescaped(pipeline)?.map(|pipeline| Transaction { pipeline, batch }))
    }

    /// The part of a file's name; none if it is not complete.
    fn part_of(&self, name: &str, transaction: &Transaction) -> io::Result<Option<Part>> {
        let Some((partition, attempt)) = name.strip_prefix("part-").and_then(|name| name.split_once('-')) else {
            return Ok(None);
        };
        let Ok(partition) = partition.parse() else { return Ok(None) };
        let attempt = self.unescaped(attempt)?;
        Ok(attempt.map(|attempt| Part { transaction: transaction.clone(), partition, attempt }))
    }

    /// Keeps a text durably whose hash stands for it in names of files.
    fn keep_name(&self, text: &str) -> io::Result<()> {
        let (folder, name) = (self.folder.join(".names"), escaped(text));
        if !name.starts_with('=') || folder.join(&name).exists() {
            return Ok(());
        }
        fs::create_dir_all(&folder)?;
        sync(&self.folder)?;
        let partial = folder.join(format!("{name}.{:?}", std::thread::current().id()));
        fs::write(&partial, text)?;
        fs::File::open(&partial)?.sync_all()?;
        fs::rename(&partial, folder.join(&name))?;
        sync(&folder)
    }

    /// The text that was escaped; none if nothing was.
    fn unescaped(&self, name: &str) -> io::Result<Option<String>> {
        if name.contains('.') {
            return Ok(None);
        }
        if name.starts_with('=') {
            return fs::read_to_string(self.folder.join(".names").join(name)).map(Some);
        }
        let mut pieces = name.split('%');
        let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
        for piece in pieces {
            let Some(Ok(byte)) = piece.get(..2).map(|code| u8::from_str_radix(code, 16)) else { return Ok(None) };
            bytes.push(byte);
            bytes.extend(piece[2..].bytes());
        }
        Ok(String::from_utf8(bytes).ok())
    }
}

fn transaction_name(transaction: &Transaction) -> String {
    format!("batch-{}-of-{}", transaction.batch, escaped(&transaction.pipeline))
}

fn part_name(part: &Part) -> String {
    format!("part-{}-{}", part.partition, escaped(&part.attempt))
}

/// Text as part of a file's name, which may have 255 bytes: letters, digits, `-` and `_` stay, other bytes become `%` and their
/// code. A text that is then too long becomes `=` and a hash (FNV-1a).
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02x}"),
    };
    let name: String = text.bytes().map(escape).collect();
    if name.len() <= 200 {
        return name;
    }
    let hash = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    format!("={:032x}", text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, hash))
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
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: files FOLDER");
        return ExitCode::from(2);
    };
    run(Connector::two_phase_sink(Files { folder: folder.into() })).await
}
