//! A part as a gzip file of lines. Gzip files that follow each other in a file are one gzip file with the lines of all of them.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use headrace::Part;

use crate::{durable, label};

/// A gzip file that is being written, under the name `*.partial`.
pub struct Member {
    encoder: GzEncoder<BufWriter<File>>,
}

impl Member {
    /// Creates the file of a part.
    pub fn create(path: &Path, part: &Part) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path.with_extension("partial"))?);
        Ok(Self { encoder: GzBuilder::new().extra(label::field(part)).write(file, Compression::default()) })
    }

    /// Adds a line.
    pub fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.encoder.write_all(line)?;
        self.encoder.write_all(b"\n")
    }

    /// Completes the file durably.
    pub fn finish(self, path: &Path) -> io::Result<()> {
        let file = self.encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        durable::rename(&path.with_extension("partial"), path)
    }
}

/// The part that a file says it is; none if it is not complete, or not one of ours.
pub fn part_of(path: &Path) -> io::Result<Option<Part>> {
    if path.extension().is_none_or(|extension| extension != "gz") {
        return Ok(None);
    }
    let decoder = GzDecoder::new(BufReader::new(File::open(path)?));
    Ok(decoder.header().and_then(|header| header.extra()).and_then(label::part))
}

/// The size of a complete file, in bytes; 0 if it has no lines.
pub fn size(path: &Path) -> io::Result<u64> {
    // A member without lines has nothing but its header and its trailer.
    const SMALL: u64 = 2048;
    let size = fs::metadata(path)?.len();
    if size > SMALL {
        return Ok(size);
    }
    let lines = io::copy(&mut GzDecoder::new(BufReader::new(File::open(path)?)), &mut io::sink())?;
    Ok(if lines > 0 { size } else { 0 })
}
