//! The functions alone, and the whole chain in real processes beside plain loops.
//!
//! The chain needs the release executors and the library of the functions; without them the test
//! says so and passes.

use chain::{BAD_INPUT, files, reference, weights};
use demo_flow::flow;
use dflow::{DType, Feed, MonoTime, Tensor, graph_file};
use flow_func::testing::{LocalMsg, LocalRunner};
use std::path::Path;

fn runner(name: &'static str) -> LocalRunner {
    LocalRunner::builder(chain::flow_library(), name).build().expect(name)
}

#[test]
fn maps_go_last_and_the_most_probable_class_wins() {
    let mut last = runner("maps_last");
    let image =
        LocalMsg::tensor(&[1, 2, 1, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("floats");
    let made = last.run(&[&image]).expect("a result").remove(0).remove(0);
    assert_eq!(made.info().ret_code, 0);
    assert_eq!(made.data::<f32>().expect("floats"), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let mut decide = runner("decide");
    let own = LocalMsg::tensor(&[1, 4], &[0.1f32, 0.3, 0.3, 0.3]).expect("floats");
    let made = decide.run(&[&own]).expect("a result").remove(0).remove(0);
    assert_eq!(made.data::<f32>().expect("floats"), [1.0, 0.3]);
    let bytes = LocalMsg::tensor(&[1, 4], &[1u8, 2, 3, 4]).expect("bytes");
    for mut runner in [last, decide] {
        let made = runner.run(&[&bytes]).expect("a code").remove(0).remove(0);
        assert_eq!(made.info().ret_code, BAD_INPUT);
    }
}

#[test]
fn the_chain_has_the_values_of_loops() {
    let present = |name: &str| std::env::var_os(name).filter(|path| Path::new(path).is_dir());
    if present("DFLOW_BIN_DIR").is_none() {
        println!("skipped: no folder in DFLOW_BIN_DIR; `cargo xtask test` has it");
        return;
    }
    let folder = std::env::temp_dir().join(format!("dflow-chain-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("first.onnx"), files::onnx()).expect("a model");
    std::fs::write(folder.join("second.pb"), files::frozen()).expect("a model");
    let graph = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../graphs/chain.yaml"));
    let text = std::fs::read_to_string(graph).expect("a graph");
    let text = text.replace("../../.cache/chain", &folder.to_string_lossy());
    let libraries = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/udf");
    let text = text.replace("../target/udf", libraries);
    let graph = folder.join("chain.yaml");
    std::fs::write(&graph, text).expect("a graph");
    let graph = graph_file::read(&graph).expect("a graph");
    let session = flow::deploy(graph.check().expect("a flow"), false).expect("processes");
    let wait = || Some(MonoTime::now().add_ms(60_000));
    for seed in 0..20 {
        let image = weights::image(seed);
        let shape = vec![1, 3, 12, 12];
        let bytes = image.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = Tensor { dtype: DType::Float32, shape, bytes };
        session.feed(Feed::of(vec![tensor]), wait()).expect("an id");
        let event = session.fetch(wait()).expect("an event");
        let found = flow::answer(&event, |bytes| {
            let (words, _) = bytes.as_chunks();
            Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect::<Vec<f32>>())
        });
        let (found, expected) = (found.expect("a class"), reference(&image));
        assert_eq!(found[0], expected[0], "class of image {seed}");
        assert!((found[1] - expected[1]).abs() < 1e-5, "{found:?}, expected {expected:?}");
    }
    let nodes = session.nodes();
    assert!(nodes.len() >= 4 && nodes.iter().all(|node| node.bytes_copied == 0), "{nodes:?}");
    session.close();
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}
