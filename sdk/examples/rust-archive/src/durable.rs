//! Changes of files that survive a crash, each as a whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Writes a file, or replaces it.
pub fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, text)?;
    sync(&partial)?;
    rename(&partial, path)
}

/// Renames a file or a folder.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    [from, to].into_iter().filter_map(Path::parent).try_for_each(sync)
}

/// Creates a folder, and those above it.
pub fn create_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    path.parent().map_or(Ok(()), sync)
}

/// Makes the bytes of a file, or the names in a folder, survive a crash.
pub fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// What does not exist need not be removed.
pub fn removed(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// The names in a folder, sorted; none if it does not exist.
pub fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let mut names = entries.map(name).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}
