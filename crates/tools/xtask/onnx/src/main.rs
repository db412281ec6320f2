//! Prints the messages of ONNX as Rust, from the proto file that it is given.

#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;

use buffa_codegen::CodeGenConfig;
use buffa_codegen::generated::descriptor::FileDescriptorSet;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("no proto file given")?;
    print!("{}", messages(Path::new(&path))?);
    Ok(())
}

/// The messages of a proto file: owned ones, which keep unknown fields.
fn messages(path: &Path) -> Result<String, Box<dyn Error>> {
    let folder = path.parent().ok_or("a proto file lies in a folder")?;
    let compiled = protox::Compiler::new([folder])?
        .open_file(path)?
        .encode_file_descriptor_set();
    let files: FileDescriptorSet =
        buffa_codegen::tooling_decode_options()?.decode_from_slice(&compiled)?;
    let mut config = CodeGenConfig::default();
    config.generate_views = false;
    config.generate_with_setters = false;
    config.file_per_package = true;
    config.idiomatic_enum_aliases = false;
    let wanted: Vec<String> = files
        .file
        .iter()
        .filter_map(|file| file.name.clone())
        .collect();
    let generated = buffa_codegen::generate(&files.file, &wanted, &config)?;
    let [file] = generated.as_slice() else {
        let names: Vec<&str> = generated.iter().map(|file| file.name.as_str()).collect();
        return Err(format!("expected one file, not {names:?}").into());
    };
    Ok(file.content.clone())
}
