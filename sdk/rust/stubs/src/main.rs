//! Writes the stubs of the crate `headrace`: `cargo run -- PROTO OUT`, where PROTO is the folder `proto` of the repository
//! and OUT the folder to write to. `make stubs` calls it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;

const PACKAGE: &str = ".headrace.protocol.v1";
const SOURCES: [&str; 2] = ["headrace/protocol/v1/source.proto", "headrace/protocol/v1/sink.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [proto, out] = arguments.as_slice() else {
        return Err("usage: headrace-stubs PROTO OUT".into());
    };
    let files = protox::compile(SOURCES, [proto])?;
    fs::create_dir_all(out)?;
    let files = prost_types_of(&files)?;
    generate(files.clone(), tonic_prost_build::configure().build_server(false).bytes("."), out, "messages.rs")?;
    generate(
        files,
        tonic_prost_build::configure().build_client(false).extern_path(PACKAGE, "crate::protocol"),
        out,
        "services.rs",
    )
}

/// Generates one file of stubs.
fn generate(
    files: prost_types::FileDescriptorSet,
    builder: tonic_prost_build::Builder,
    out: &Path,
    name: &str,
) -> Result<(), Box<dyn Error>> {
    let folder = out.join("generated");
    fs::create_dir_all(&folder)?;
    builder.disable_comments(["."]).out_dir(&folder).compile_fds(files)?;
    let generated = fs::read_to_string(folder.join("headrace.protocol.v1.rs"))?;
    fs::write(out.join(name), generated)?;
    fs::remove_dir_all(folder)?;
    Ok(())
}

/// Converts the descriptors to the version of prost that the generator uses.
fn prost_types_of(files: &impl Message) -> Result<prost_types::FileDescriptorSet, prost::DecodeError> {
    prost_types::FileDescriptorSet::decode(files.encode_to_vec().as_slice())
}
