//! Writes the stubs of the crate `headrace`: `cargo run -- DESCRIPTORS OUT`. DESCRIPTORS is a file with the descriptors of what
//! a connector needs, with comments, as `protoc --descriptor_set_out --include_imports --include_source_info` writes it. OUT is
//! the folder to write to. `make stubs` calls it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;
use prost_types::FileDescriptorSet;

const PACKAGE: &str = ".headrace.protocol.v1";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [descriptors, out] = arguments.as_slice() else {
        return Err("usage: headrace-stubs DESCRIPTORS OUT".into());
    };
    let files = FileDescriptorSet::decode(fs::read(descriptors)?.as_slice())?;
    fs::create_dir_all(out)?;
    generate(files.clone(), tonic_prost_build::configure().build_server(false).bytes("."), out, "messages.rs")?;
    generate(
        files,
        tonic_prost_build::configure().build_client(false).extern_path(PACKAGE, "crate::protocol"),
        out,
        "services.rs",
    )
}

/// Generates one file of stubs.
fn generate(files: FileDescriptorSet, builder: tonic_prost_build::Builder, out: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let folder = out.join("generated");
    fs::create_dir_all(&folder)?;
    builder.disable_comments(["."]).out_dir(&folder).compile_fds(files)?;
    let generated = fs::read_to_string(folder.join("headrace.protocol.v1.rs"))?;
    fs::write(out.join(name), generated)?;
    fs::remove_dir_all(folder)?;
    Ok(())
}
