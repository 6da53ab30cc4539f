//! docs/status.md says of the ops what the table says.
#![deny(unsafe_code)]

use npu::ops::markdown;

#[test]
fn the_documented_ops_are_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/status.md");
    let status = std::fs::read_to_string(path).expect("docs/status.md");
    let rows = markdown();
    let rewrite = "replace the rows under `## Ops of models` of docs/status.md by these:";
    assert!(status.contains(&rows), "{rewrite}\n{rows}");
}
