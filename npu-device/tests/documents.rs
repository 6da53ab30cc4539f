//! docs/device.md says of every code when it comes, and of no other.

use npu_device::codes::ALL;

#[test]
fn every_code_has_its_row() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/device.md");
    let text = std::fs::read_to_string(path).unwrap();
    let cells = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let code: u32 = cells.next()?.parse().ok()?;
        Some((code, cells.next()?.trim_matches('`').to_owned()))
    };
    let rows: Vec<(u32, String)> = text.lines().filter_map(cells).collect();
    let codes: Vec<(u32, String)> =
        ALL.iter().map(|(code, name)| (code.0, (*name).to_owned())).collect();
    assert_eq!(rows, codes);
}
