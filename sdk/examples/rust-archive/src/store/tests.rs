//! The archive: rotation, and what is left of it after a crash at any step.

use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering};

use flate2::read::MultiGzDecoder;

use super::*;

const ROTATION: Rotation = Rotation { bytes: 1 << 20, age: Duration::from_secs(3600) };

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rust-archive-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    fn open(&self) -> Store {
        Store::open(&self.0, ROTATION).expect("an archive")
    }

    /// The lines of each file of the archive, as any gzip program shows them.
    fn files(&self) -> Vec<Vec<String>> {
        let names = durable::names(&self.0).expect("a folder");
        let lines = |name: String| {
            let mut text = String::new();
            MultiGzDecoder::new(File::open(self.0.join(name)).expect("a file")).read_to_string(&mut text).expect("gzip");
            text.lines().map(str::to_owned).collect()
        };
        names.into_iter().filter(|name| Name::parse(name).is_some()).map(lines).collect()
    }

    fn lines(&self) -> Vec<String> {
        self.files().concat()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn transaction(batch: u64) -> Transaction {
    Transaction { pipeline: "query".to_owned(), batch }
}

fn part(batch: u64, partition: u32) -> Part {
    Part { transaction: transaction(batch), partition, attempt: "1/1".to_owned() }
}

fn stage(store: &Store, part: &Part, lines: &[&str]) {
    let (mut member, path) = store.begin(part).expect("a file");
    lines.iter().for_each(|line| member.write(line.as_bytes()).expect("written"));
    member.finish(&path).expect("finished");
}

/// Stages and prepares a line of a batch.
fn prepare(store: &Store, batch: u64, line: &str) {
    stage(store, &part(batch, 0), &[line]);
    store.prepare(&transaction(batch), &[part(batch, 0)]).expect("prepared");
}

fn write(store: &Store, batch: u64, line: &str) {
    prepare(store, batch, line);
    store.commit(&transaction(batch)).expect("committed");
}

#[test]
fn transactions_are_appended_in_the_order_of_their_parts() {
    let folder = Folder::new();
    let store = folder.open();
    for batch in 0..2 {
        for partition in [1, 0] {
            stage(&store, &part(batch, partition), &[&format!("{batch} {partition}")]);
        }
        store.prepare(&transaction(batch), &[part(batch, 0), part(batch, 1)]).expect("prepared");
        store.commit(&transaction(batch)).expect("committed");
        // Again, it changes nothing.
        store.commit(&transaction(batch)).expect("committed");
    }
    assert_eq!(folder.files(), [["0 0", "0 1", "1 0", "1 1"]]);
}

#[test]
fn a_file_that_is_full_or_old_is_followed_by_another() {
    let folder = Folder::new();
    let store = Store::open(&folder.0, Rotation { bytes: 1, ..ROTATION }).expect("an archive");
    write(&store, 0, "a");
    write(&store, 1, "b");
    drop(store);
    // A transaction that is larger than a file may be has one of its own.
    assert_eq!(folder.files(), [["a"], ["b"]]);
    let names = durable::names(&folder.0).expect("names");
    let last = names.last().expect("two files");
    let old = Name::new(9, SystemTime::now() - Duration::from_secs(3601));
    fs::rename(folder.0.join(last), folder.0.join(old.to_string())).expect("renamed");
    write(&folder.open(), 2, "c");
    write(&folder.open(), 3, "d");
    assert_eq!(folder.files(), [vec!["a"], vec!["b"], vec!["c", "d"]]);
    assert!(durable::names(&folder.0).expect("names").last().is_some_and(|name| name.starts_with("00000010-")));
}

#[test]
fn a_part_without_lines_adds_nothing() {
    let folder = Folder::new();
    let store = folder.open();
    stage(&store, &part(0, 0), &[]);
    store.prepare(&transaction(0), &[part(0, 0)]).expect("prepared");
    store.commit(&transaction(0)).expect("committed");
    assert!(folder.files().is_empty());
    assert_eq!(store.recover().expect("recovered").committed, [transaction(0)]);
}

#[test]
fn only_the_parts_that_count_are_committed() {
    let folder = Folder::new();
    let store = folder.open();
    let again = Part { attempt: "2/1".to_owned(), ..part(0, 0) };
    stage(&store, &part(0, 0), &["first attempt"]);
    store.prepare(&transaction(0), &[part(0, 0)]).expect("prepared");
    stage(&store, &again, &["second attempt"]);
    store.prepare(&transaction(0), std::slice::from_ref(&again)).expect("prepared");
    let missing = store.prepare(&transaction(0), &[again, part(0, 7)]).expect_err("a part is missing");
    assert_eq!(missing.to_string(), "partition 7, attempt 1/1, is not staged");
    store.commit(&transaction(0)).expect("committed");
    assert_eq!(folder.lines(), ["second attempt"]);
}

#[test]
fn what_is_unknown_is_neither_prepared_nor_committed() {
    let folder = Folder::new();
    let store = folder.open();
    assert!(store.prepare(&transaction(0), &[]).is_err());
    assert!(store.commit(&transaction(0)).is_err());
    write(&store, 5, "five");
    assert!(store.commit(&transaction(6)).is_err());
}

#[test]
fn a_crash_while_staging_leaves_nothing_that_counts() {
    let folder = Folder::new();
    let (mut member, _) = folder.open().begin(&part(0, 0)).expect("a file");
    member.write(b"half").expect("written");
    drop(member);
    assert_eq!(folder.open().recover().expect("recovered"), Recovered::default());
}

#[test]
fn what_is_staged_or_prepared_survives_a_crash() {
    let folder = Folder::new();
    let long = Transaction { pipeline: "p".repeat(255), batch: u64::MAX >> 1 };
    let staged = Part { transaction: long.clone(), partition: 3, attempt: "/".repeat(255) };
    let store = folder.open();
    stage(&store, &staged, &["staged"]);
    prepare(&store, 0, "prepared");
    drop(store);
    let store = folder.open();
    let recovered = store.recover().expect("recovered");
    assert_eq!(recovered.staged, [staged.clone(), part(0, 0)]);
    assert_eq!((recovered.prepared, recovered.committed), (vec![transaction(0)], vec![]));
    assert!(folder.lines().is_empty());
    store.commit(&transaction(0)).expect("committed");
    store.prepare(&long, &[staged]).expect("prepared");
    store.commit(&long).expect("committed");
    assert_eq!(folder.lines(), ["prepared", "staged"]);
}

#[test]
fn a_crash_at_any_step_of_a_commit_shows_all_of_it_once() {
    for step in 0..4 {
        let folder = Folder::new();
        let store = folder.open();
        write(&store, 0, "before");
        prepare(&store, 1, "new");
        let prepared = store.prepared(&transaction(1));
        let source = prepared.join(&durable::names(&prepared).expect("names")[0]);
        let (file, before) = store.file_for(1).expect("a file");
        let after = before + fs::metadata(&source).expect("a file").len();
        let commit = Commit { transaction: transaction(1), file, before, after };
        // The commit begins, ...
        durable::write(&folder.0.join(".commit"), commit.text().as_bytes()).expect("written");
        if step == 1 {
            // ... the copy is half written, ...
            fs::write(folder.0.join(".next"), b"half").expect("written");
        }
        if step >= 2 {
            // ... takes the place of the file, ...
            store.append(&commit, [&source].into_iter()).expect("appended");
        }
        if step >= 3 {
            // ... and is noted, but not cleaned up.
            let note = folder.0.join(".committed").join(label::hashed(b"query"));
            durable::write(&note, b"1\nquery").expect("written");
        }
        drop(store);
        let store = folder.open();
        let recovered = store.recover().expect("recovered");
        let is_visible = step >= 2;
        assert_eq!(recovered.prepared.is_empty(), is_visible, "step {step}");
        assert_eq!(folder.lines().len(), if is_visible { 2 } else { 1 }, "step {step}");
        store.commit(&transaction(1)).expect("committed");
        write(&store, 2, "after");
        assert_eq!(folder.lines(), ["before", "new", "after"], "step {step}");
        assert_eq!(store.recover().expect("recovered").committed, [transaction(2)]);
        assert!(!folder.0.join(".commit").exists() && !folder.0.join(".next").exists());
    }
}

#[test]
fn an_archive_that_somebody_has_changed_is_left_alone() {
    let folder = Folder::new();
    let store = folder.open();
    prepare(&store, 0, "line");
    let commit = Commit { transaction: transaction(0), file: Name::new(1, SystemTime::now()).to_string(), before: 10, after: 20 };
    durable::write(&folder.0.join(".commit"), commit.text().as_bytes()).expect("written");
    let error = store.commit(&transaction(0)).expect_err("an error").to_string();
    assert!(error.contains("is 0, but a commit was changing it from 10 to 20"), "{error}");
}

#[test]
fn a_commit_that_failed_comes_again_after_later_ones() {
    let folder = Folder::new();
    let store = folder.open();
    prepare(&store, 0, "zero");
    write(&store, 1, "one");
    store.commit(&transaction(0)).expect("committed");
    assert_eq!(folder.lines(), ["one", "zero"]);
    assert_eq!(store.recover().expect("recovered").committed, [transaction(1)]);
}

#[test]
fn two_processes_never_use_one_archive() {
    let folder = Folder::new();
    let _store = folder.open();
    let error = Store::open(&folder.0, ROTATION).err().expect("an error").to_string();
    assert!(error.contains("in use by another process"), "{error}");
}

#[test]
fn what_is_dropped_or_aborted_is_gone() {
    let folder = Folder::new();
    let store = folder.open();
    stage(&store, &part(0, 0), &["dropped"]);
    store.drop_part(&part(0, 0)).expect("dropped");
    store.drop_part(&part(0, 1)).expect("nothing to drop");
    prepare(&store, 1, "aborted");
    store.abort(&transaction(1)).expect("aborted");
    store.abort(&transaction(2)).expect("nothing to abort");
    assert_eq!(store.recover().expect("recovered"), Recovered::default());
}
