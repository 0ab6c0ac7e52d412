//! Frames of one part that wait in a temporary file, so that frames of other parts need not wait for them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;

use prost::Message;
use tokio::task::spawn_blocking;

use crate::protocol as pb;

/// A temporary file, which no longer has a name: it disappears with the process at the latest.
#[derive(Debug, Default)]
pub(super) struct Spill {
    file: Option<Arc<File>>,
    end: u64,
}

/// Where a frame is.
#[derive(Debug, Clone)]
pub(super) struct Place {
    file: Arc<File>,
    at: u64,
    bytes: usize,
}

impl Spill {
    /// Writes a frame. The file is created with the first one.
    pub(super) async fn write(&mut self, frame: &pb::Frame) -> io::Result<Place> {
        let bytes = frame.encode_to_vec();
        let (known, at, length) = (self.file.clone(), self.end, bytes.len());
        let file = blocking(move || {
            let file = known.map_or_else(create, Ok)?;
            file.write_all_at(&bytes, at)?;
            Ok(file)
        });
        let file = Arc::clone(self.file.insert(file.await?));
        self.end += length as u64;
        Ok(Place { file, at, bytes: length })
    }
}

impl Place {
    /// Reads the frame.
    pub(super) async fn read(self) -> io::Result<pb::Frame> {
        let bytes = blocking(move || {
            let mut bytes = vec![0; self.bytes];
            self.file.read_exact_at(&mut bytes, self.at)?;
            Ok(bytes)
        });
        pb::Frame::decode(bytes::Bytes::from(bytes.await?)).map_err(io::Error::other)
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Creates a file that only this process can open.
fn create() -> io::Result<Arc<File>> {
    let path = std::env::temp_dir().join(format!("headrace-{:016x}", fastrand::u64(..)));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(Arc::new(file))
}
