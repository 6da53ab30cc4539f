//! The whole flow in real processes: a page, one without text, and a file that is no picture.
//!
//! Needs the release executors and what `cargo xtask test setup` makes; without them the test says
//! so and passes.

use demo_flow::flow;
use ocr::gather::{self, Line};
use std::path::Path;

/// Codes that functions send on: that of the file that is no picture, by `text`.
const CODES: u64 = 1;
/// Bytes of a message without data.
const DESCRIPTOR: u64 = 1024;

type Answer = Result<Vec<Line>, String>;

fn ask(pages: &[(&str, &[u8])]) -> Vec<Answer> {
    let graph = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../graphs/ocr.yaml"));
    let checked = flow::load(graph, 0).expect("a graph");
    let session = flow::deploy(checked, false).expect("a flow");
    let run = flow::run(&session, pages, |event| {
        flow::answer(event, |bytes| gather::read(&String::from_utf8_lossy(bytes)))
    });
    let nodes = session.nodes();
    assert!(nodes.iter().all(|node| node.restarts == 0), "{nodes:?}");
    // `forwarding: copy`: a code is sent on as a copy, of a message without data.
    let copied: u64 = nodes.iter().map(|node| node.bytes_copied).sum();
    assert_eq!(copied, CODES * DESCRIPTOR, "{nodes:?}");
    // Five functions and two devices with their models, each a process.
    let mut pids: Vec<u32> = nodes.iter().map(|node| node.pid).filter(|pid| *pid != 0).collect();
    pids.sort_unstable();
    pids.dedup();
    assert!(pids.len() >= 7, "{nodes:?}");
    session.close();
    run.expect("events").found
}

#[test]
fn a_page_is_read_and_pages_without_text_end_too() {
    let present = |name: &str| std::env::var_os(name).filter(|path| Path::new(path).is_dir());
    let folders = ["DFLOW_BIN_DIR", "DFLOW_UDF_DIR", "DFLOW_PAGES_DIR", "DFLOW_MODELS_DIR"];
    if let Some(missing) = folders.into_iter().find(|name| present(name).is_none()) {
        println!("skipped: no folder in {missing}; `cargo xtask test` has them");
        return;
    }
    let folder = present("DFLOW_PAGES_DIR").unwrap_or_default();
    let file = |name: &str| std::fs::read(Path::new(&folder).join(name)).expect("a page");
    let (page, noise) = (file("page.png"), file("text.png"));
    let pages: [(&str, &[u8]); 4] =
        [("page", &page), ("noise", &noise), ("text", b"no picture"), ("again", &page)];
    let answers = ask(&pages);
    let [Ok(first), Ok(none), Err(broken), Ok(again)] = &answers[..] else { panic!("{answers:?}") };
    let texts: Vec<&str> = first.iter().map(|line| line.text.as_str()).collect();
    assert!(texts.len() >= 5 && texts[0] == "Region-based segmentation", "{texts:?}");
    assert!(first.iter().all(|line| line.confidence > 0.9), "{first:?}");
    let tops: Vec<f32> = first.iter().map(|line| line.corners[0][1]).collect();
    assert!(tops.is_sorted(), "reading order: {tops:?}");
    assert_eq!((none.len(), first), (0, again));
    assert!(broken.contains("9900201"), "{broken}");
}
