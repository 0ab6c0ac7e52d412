//! The archive: a folder with gzip files, and what is on its way into them.
//!
//! | path | |
//! |---|---|
//! | `00000007-20261123T120000Z.gz` | a file of the archive: its number, and when it was begun |
//! | `.staged/T/P.gz` | a staged part; `T` and `P` are hashes, and the file says itself which part it is |
//! | `.prepared/T/P.gz` | a part of a prepared transaction |
//! | `.committed/H` | the last committed batch of a pipeline: the number, and in the next line the pipeline |
//! | `.commit` | the commit in progress: the transaction, the file, and its size before and after |
//! | `.next` | the file as it will be after that commit |
//!
//! A commit writes `.commit`, copies the file to `.next`, appends the parts, and renames it to its place: that is the one step
//! by which a transaction becomes visible. After a crash, the size of the file tells whether that has happened.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use headrace::{BoxError, Part, Recovered, Transaction};

use crate::member::{self, Member};
use crate::name::Name;
use crate::{durable, label};

/// When a file is full, and the next one is begun.
#[derive(Debug, Clone, Copy)]
pub struct Rotation {
    /// The size up to which parts are appended, in bytes.
    pub bytes: u64,
    /// The age up to which parts are appended.
    pub age: Duration,
}

pub struct Store {
    folder: PathBuf,
    rotation: Rotation,
    /// Held as long as the store is open.
    _lock: File,
}

/// A commit that has begun.
struct Commit {
    transaction: Transaction,
    file: String,
    before: u64,
    after: u64,
}

impl Store {
    /// Opens the archive in a folder, which is created if necessary.
    ///
    /// # Errors
    ///
    /// If it cannot be used, or if another process uses it.
    pub fn open(folder: &Path, rotation: Rotation) -> Result<Self, BoxError> {
        for name in ["", ".staged", ".prepared", ".committed"] {
            durable::create_folder(&folder.join(name))?;
        }
        let lock = File::create(folder.join(".lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder: folder.to_owned(), rotation, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(format!("{} is in use by another process", folder.display()).into()),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Begins the file of a part; returns also its path.
    pub fn begin(&self, part: &Part) -> io::Result<(Member, PathBuf)> {
        let path = self.staged(&part.transaction).join(file_name(part));
        durable::create_folder(path.parent().unwrap_or(&self.folder))?;
        Ok((Member::create(&path, part)?, path))
    }

    pub fn drop_part(&self, part: &Part) -> io::Result<()> {
        for folder in [self.staged(&part.transaction), self.prepared(&part.transaction)] {
            let path = folder.join(file_name(part));
            durable::removed(fs::remove_file(path.with_extension("partial")))?;
            durable::removed(fs::remove_file(path))?;
        }
        Ok(())
    }

    /// Moves the staged parts of a transaction that count to the prepared ones, and no others.
    pub fn prepare(&self, transaction: &Transaction, parts: &[Part]) -> Result<(), BoxError> {
        let (staged, prepared) = (self.staged(transaction), self.prepared(transaction));
        if staged.exists() && prepared.exists() {
            // Another run of the query has staged the batch again: what the first one has prepared counts only if it is named.
            for name in durable::names(&prepared)? {
                durable::rename(&prepared.join(&name), &staged.join(&name))?;
            }
            fs::remove_dir(&prepared)?;
        }
        let folder = if prepared.exists() { &prepared } else { &staged };
        if !folder.exists() {
            return Err("nothing of it is staged".into());
        }
        let counting: Vec<String> = parts.iter().map(file_name).collect();
        for name in durable::names(folder)?.into_iter().filter(|name| !counting.contains(name)) {
            fs::remove_file(folder.join(name))?;
        }
        if let Some(missing) = parts.iter().find(|part| !folder.join(file_name(part)).exists()) {
            return Err(format!("partition {}, attempt {}, is not staged", missing.partition, missing.attempt).into());
        }
        // What was removed must not come back after a crash: it would be committed.
        durable::sync(folder)?;
        if staged.exists() {
            durable::rename(&staged, &prepared)?;
        }
        Ok(())
    }

    /// Makes a transaction visible, unless it is.
    pub fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        self.complete_commit()?;
        let prepared = self.prepared(transaction);
        if !prepared.exists() {
            let last = self.committed()?.into_iter().find(|last| last.pipeline == transaction.pipeline);
            return match last {
                Some(last) if last.batch >= transaction.batch => Ok(()),
                _ => Err("nothing is prepared of it, and it is not in the archive".into()),
            };
        }
        let mut parts = Vec::new();
        for name in durable::names(&prepared)? {
            let path = prepared.join(name);
            let part = member::part_of(&path)?.ok_or_else(|| format!("{} is damaged", path.display()))?;
            parts.push((part.partition, member::size(&path)?, path));
        }
        parts.sort();
        parts.retain(|(_, size, _)| *size > 0);
        let added = parts.iter().map(|(_, size, _)| size).sum();
        let (file, before) = self.file_for(added)?;
        let commit = Commit { transaction: transaction.clone(), file, before, after: before + added };
        durable::write(&self.folder.join(".commit"), commit.text().as_bytes())?;
        if added > 0 {
            self.append(&commit, parts.iter().map(|(_, _, path)| path))?;
        }
        self.complete_commit()
    }

    pub fn abort(&self, transaction: &Transaction) -> Result<(), BoxError> {
        self.complete_commit()?;
        durable::removed(fs::remove_dir_all(self.staged(transaction)))?;
        durable::removed(fs::remove_dir_all(self.prepared(transaction)))?;
        Ok(())
    }

    /// Returns what is held, after completing a commit that a crash has interrupted.
    pub fn recover(&self) -> Result<Recovered, BoxError> {
        self.complete_commit()?;
        let mut recovered = Recovered::default();
        for (place, is_prepared) in [(".staged", false), (".prepared", true)] {
            for folder in durable::names(&self.folder.join(place))? {
                let folder = self.folder.join(place).join(folder);
                let mut transaction = None;
                for name in durable::names(&folder)? {
                    if let Some(part) = member::part_of(&folder.join(name))? {
                        transaction = Some(part.transaction.clone());
                        recovered.staged.push(part);
                    }
                }
                recovered.prepared.extend(transaction.filter(|_| is_prepared));
            }
        }
        recovered.committed = self.committed()?;
        Ok(recovered)
    }

    /// Ends the commit that has begun, if there is one: notes it as committed if the archive contains it, and otherwise as not
    /// begun.
    fn complete_commit(&self) -> Result<(), BoxError> {
        let journal = self.folder.join(".commit");
        let text = match fs::read_to_string(&journal) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text?,
        };
        let commit = Commit::read(&text).ok_or_else(|| format!("{} is damaged: {text:?}", journal.display()))?;
        let size = size_of(&self.folder.join(&commit.file))?;
        if size == commit.after {
            let Transaction { pipeline, batch } = &commit.transaction;
            let last = self.committed()?.into_iter().find(|last| last.pipeline == *pipeline);
            // One whose commit has failed comes again after later ones.
            let batch = last.map_or(*batch, |last| last.batch.max(*batch));
            let note = self.folder.join(".committed").join(label::hashed(pipeline.as_bytes()));
            durable::write(&note, format!("{batch}\n{pipeline}").as_bytes())?;
            durable::removed(fs::remove_dir_all(self.prepared(&commit.transaction)))?;
            durable::sync(&self.folder.join(".prepared"))?;
        } else if size != commit.before {
            return Err(format!(
                "the size of {} is {size}, but a commit was changing it from {} to {}: was it edited?",
                commit.file, commit.before, commit.after
            )
            .into());
        }
        durable::removed(fs::remove_file(self.folder.join(".next")))?;
        fs::remove_file(&journal)?;
        durable::sync(&self.folder)?;
        Ok(())
    }

    /// Appends parts to a file of the archive: all of them, or none.
    fn append<'a>(&self, commit: &Commit, parts: impl Iterator<Item = &'a PathBuf>) -> Result<(), BoxError> {
        let (path, next) = (self.folder.join(&commit.file), self.folder.join(".next"));
        durable::removed(fs::remove_file(&next))?;
        if commit.before > 0 {
            fs::copy(&path, &next)?;
        }
        let mut file = File::options().create(true).append(true).open(&next)?;
        for part in parts {
            io::copy(&mut File::open(part)?, &mut file)?;
        }
        file.flush()?;
        file.sync_all()?;
        let size = file.stream_position()?;
        if size != commit.after {
            return Err(format!("the size of {} is {size} instead of {}", next.display(), commit.after).into());
        }
        Ok(durable::rename(&next, &path)?)
    }

    /// The file to append bytes to, and its size: the last one, unless it is full or too old.
    fn file_for(&self, added: u64) -> io::Result<(String, u64)> {
        let now = SystemTime::now();
        let last = durable::names(&self.folder)?.iter().filter_map(|name| Name::parse(name)).max();
        if let Some(last) = &last {
            let size = size_of(&self.folder.join(last.to_string()))?;
            if last.age(now) <= self.rotation.age && size + added <= self.rotation.bytes {
                return Ok((last.to_string(), size));
            }
        }
        Ok((Name::new(last.map_or(1, |last| last.number + 1), now).to_string(), 0))
    }

    /// The last committed batch of each pipeline.
    fn committed(&self) -> Result<Vec<Transaction>, BoxError> {
        let folder = self.folder.join(".committed");
        let mut committed = Vec::new();
        for name in durable::names(&folder)?.into_iter().filter(|name| !name.contains('.')) {
            let text = fs::read_to_string(folder.join(&name))?;
            let found = text
                .split_once('\n')
                .and_then(|(batch, pipeline)| Some(Transaction { pipeline: pipeline.to_owned(), batch: batch.parse().ok()? }));
            committed.push(found.ok_or_else(|| format!("{}/{name} is damaged: {text:?}", folder.display()))?);
        }
        Ok(committed)
    }

    fn staged(&self, transaction: &Transaction) -> PathBuf {
        self.folder.join(".staged").join(folder_name(transaction))
    }

    fn prepared(&self, transaction: &Transaction) -> PathBuf {
        self.folder.join(".prepared").join(folder_name(transaction))
    }
}

impl Commit {
    fn text(&self) -> String {
        let Transaction { pipeline, batch } = &self.transaction;
        format!("{} {} {} {batch}\n{pipeline}", self.file, self.before, self.after)
    }

    fn read(text: &str) -> Option<Self> {
        let (line, pipeline) = text.split_once('\n')?;
        let [file, before, after, batch] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let transaction = Transaction { pipeline: pipeline.to_owned(), batch: batch.parse().ok()? };
        Some(Self { transaction, file: file.to_owned(), before: before.parse().ok()?, after: after.parse().ok()? })
    }
}

fn folder_name(transaction: &Transaction) -> String {
    label::hashed(format!("{} {}", transaction.batch, transaction.pipeline).as_bytes())
}

fn file_name(part: &Part) -> String {
    format!("{}.gz", label::hashed(format!("{} {}", part.partition, part.attempt).as_bytes()))
}

/// The size of a file, in bytes; 0 if it does not exist.
fn size_of(path: &Path) -> io::Result<u64> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        metadata => Ok(metadata?.len()),
    }
}

#[cfg(test)]
mod tests;
