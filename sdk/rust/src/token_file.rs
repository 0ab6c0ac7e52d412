//! Files that contain a token: how they are read, and what is wrong with them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError, mpsc};
use std::time::Duration;

use crate::error::Error;

/// The size of the largest file with a token.
const MAX_TOKEN_BYTES: u64 = 4096;
/// How long to wait until whoever writes to a pipe has written the token and closed it.
const PIPE_WITHIN: Duration = Duration::from_secs(30);
const EVERYONE_READS: u32 = 0o004;

/// A path, and the device and inode of the pipe there: the number of a descriptor may be used again.
type Pipe = (PathBuf, u64, u64);

/// What pipes contained: they can be read once only.
static READ_ONCE: LazyLock<Mutex<HashMap<Pipe, Vec<u8>>>> = LazyLock::new(Mutex::default);

/// A file that contains a token, and is read again before each session.
#[derive(Debug, Clone)]
pub(crate) struct TokenFile {
    path: PathBuf,
    /// Why the file was not used when it was last read.
    problem: Option<String>,
}

impl TokenFile {
    /// Reads a file for the first time, and returns its token too.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if it does not contain exactly one token; `name` says who names the file.
    pub(crate) fn open(name: &str, path: &Path) -> Result<(Self, String), Error> {
        let token = read_token(path, PIPE_WITHIN).map_err(|problem| Error::Invalid(format!("{name}: {problem}")))?;
        let is_exposed = |found: &std::fs::Metadata| found.is_file() && found.permissions().mode() & EVERYONE_READS != 0;
        if !is_descriptor(path) && path.metadata().is_ok_and(|found| is_exposed(&found)) {
            tracing::warn!("every user of this machine can read the token: chmod o= {}", path.display());
        }
        Ok((Self { path: path.to_owned(), problem: None }, token))
    }

    /// Reads the file again. `None` if it contains no token, so that the last one stays in use; each problem is logged once.
    pub(crate) fn refresh(&mut self) -> Option<String> {
        match read_token(&self.path, PIPE_WITHIN) {
            Ok(token) => {
                self.problem = None;
                Some(token)
            }
            Err(problem) => {
                if self.problem.as_ref() != Some(&problem) {
                    tracing::warn!(%problem, "the token that the file contained before stays in use");
                }
                self.problem = Some(problem);
                None
            }
        }
    }
}

/// Returns the token that a file contains, without the white space around it, or what is wrong with it, without its contents.
pub(crate) fn read_token(path: &Path, pipe_within: Duration) -> Result<String, String> {
    let shown = path.display();
    let content = content_of(path, pipe_within).map_err(|reason| format!("{shown}: {reason}"))?;
    let is_space = |byte: &u8| b" \t\r\n".contains(byte);
    let start = content.iter().position(|byte| !is_space(byte)).unwrap_or(content.len());
    let end = content.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    let token = &content[start..end];
    if content.len() as u64 > MAX_TOKEN_BYTES {
        return Err(format!("{shown} is too large for a token: more than 4,096 bytes"));
    }
    if token.is_empty() {
        return Err(format!("{shown} is empty: write the token into it, and nothing else"));
    }
    if token.iter().any(|byte| !(b' '..=b'~').contains(byte)) {
        let what = match line_ends(token) {
            0 => "bytes that no token contains".to_owned(),
            ends => format!("{} lines", ends + 1),
        };
        return Err(format!("{shown} contains {what}: write one token into it, and nothing else"));
    }
    Ok(token.iter().map(|byte| char::from(*byte)).collect())
}

fn line_ends(text: &[u8]) -> usize {
    let ends = text.iter().filter(|byte| b"\r\n".contains(byte)).count();
    ends - text.windows(2).filter(|pair| pair == b"\r\n").count()
}

/// Returns up to one byte more than a file with a token may contain.
fn content_of(path: &Path, pipe_within: Duration) -> Result<Vec<u8>, String> {
    let found = path.metadata().map_err(|error| reason(path, &error))?;
    if found.is_dir() {
        return Err("it is a folder, and no file".to_owned());
    }
    if found.is_file() {
        return read(path).map_err(|error| reason(path, &error));
    }
    // It cannot be opened, not even by the number of its descriptor.
    if found.file_type().is_socket() {
        return Err("it is a socket, and no file".to_owned());
    }
    if !found.file_type().is_fifo() {
        return Err("it is a device, and no file".to_owned());
    }
    let pipe = (path.to_owned(), found.dev(), found.ino());
    let mut read_once = READ_ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = read_once.get(&pipe) {
        return Ok(known.clone());
    }
    let content = read_within(path, pipe_within)?;
    read_once.insert(pipe, content.clone());
    Ok(content)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(MAX_TOKEN_BYTES + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// Reads a pipe on a thread of its own, which waits for ever if nobody ever writes to it.
fn read_within(path: &Path, within: Duration) -> Result<Vec<u8>, String> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let file = path.to_owned();
    std::thread::spawn(move || {
        // Whoever waited may have left.
        let _ = sender.send(read(&file));
    });
    match receiver.recv_timeout(within) {
        Ok(content) => content.map_err(|error| reason(path, &error)),
        Err(_) => Err("nobody has written a token to it and closed it in time".to_owned()),
    }
}

fn reason(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound if is_descriptor(path) => "this process has no such file descriptor".to_owned(),
        ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => error.to_string(),
    }
}

/// Whether a path is a descriptor of this process, such as `/dev/fd/3`.
fn is_descriptor(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let number = text.strip_prefix("/dev/fd/").or_else(|| text.strip_prefix("/proc/self/fd/"));
    text == "/dev/stdin" || number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
