//! `chain-models [FOLDER]`: writes the models of `examples/graphs/chain.yaml`.

use std::path::PathBuf;

use chain::files;

fn main() -> std::io::Result<()> {
    let beside = || concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cache/chain").into();
    let folder: PathBuf = std::env::args_os().nth(1).map_or_else(beside, PathBuf::from);
    if folder.to_string_lossy().starts_with('-') {
        println!("chain-models [FOLDER]: writes first.onnx and second.pb; FOLDER: .cache/chain");
        return Ok(());
    }
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("first.onnx"), files::onnx())?;
    std::fs::write(folder.join("second.pb"), files::frozen())
}
