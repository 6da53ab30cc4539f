//! What the good samples answer, and what they allocate.

use executor_core::abi::DataType;
use executor_core::error::Code;
use executor_core::primitive::Ordering;
use executor_rt::proto::AttrKind;
use sys::clock::MonoTime;

use super::common::{Node, Setup};
use super::{sample, texts};

const MESSAGES: u64 = 20_000;

fn rounds(setup: Setup, inputs: usize) -> (Node, f64) {
    let mut node = Node::start(setup);
    node.ready();
    let start = MonoTime::now();
    for id in 1..=MESSAGES {
        (0..inputs).for_each(|input| node.feed(input, id, &[1, 2]));
        assert_eq!(node.fetch(0).id(), id);
    }
    let nanos = MonoTime::now().since_ns(start);
    node.finalize();
    let micros = std::time::Duration::from_nanos(nanos).as_secs_f64() * 1e6;
    (node, micros / f64::from(u32::try_from(MESSAGES).unwrap()))
}

/// What the library itself adds is nothing: messages and their counts come out of pools.
#[test]
fn identity_forwards_without_a_copy_or_an_allocation() {
    for abi in [0, 1] {
        let mut setup = sample("arith", "identity", abi);
        setup.env = vec![("DFLOW_TIMING", "1")];
        let (node, micros) = rounds(setup, 1);
        let ctl = node.ctl();
        let in_user = ctl.user_ns.load(Ordering::Relaxed) / MESSAGES;
        println!("identity, string ABI {abi}: {micros:.2} us a message, {in_user} ns in the call");
        assert_eq!(ctl.processed.load(Ordering::Relaxed), MESSAGES);
        assert_eq!(ctl.bytes_copied.load(Ordering::Relaxed), 0);
        assert_eq!(ctl.runtime_allocations.load(Ordering::Relaxed), 0);
        assert_eq!(ctl.user_allocations.load(Ordering::Relaxed), 0);
    }
}

/// The shape that AllocTensorMsg gets is a vector that exists already, so nothing is allocated here
/// either.
#[test]
fn add_allocates_messages_but_no_memory() {
    let (node, micros) = rounds(sample("arith", "add", 0).ports(2, 1), 2);
    println!("add: {micros:.2} us a message");
    assert_eq!(node.ctl().runtime_allocations.load(Ordering::Relaxed), 0);
    assert_eq!(node.ctl().user_allocations.load(Ordering::Relaxed), 0);
}

/// A vector for each output's shape is the function's; the runtime still allocates nothing.
#[test]
fn allocations_of_a_function_are_counted_apart() {
    let labels = texts(&["0", "90", "180", "270"]);
    let setup = sample("orientation", "orientation", 1).kind("labels", labels);
    let mut node = Node::start(setup);
    node.ready();
    for id in 1..=500 {
        let mbuf = node.tensor_of(id, DataType::FLOAT, &[1, 4], &floats(&[0.1, 0.2, 0.3, 0.4]));
        node.feed_mbuf(0, mbuf);
        assert_eq!(node.fetch(0).id(), id);
    }
    node.finalize();
    assert_eq!(node.ctl().runtime_allocations.load(Ordering::Relaxed), 0);
    let user = node.ctl().user_allocations.load(Ordering::Relaxed);
    assert!((1..=500).contains(&user), "one vector of two dimensions a message: {user}");
}

#[test]
fn add_adds_and_answers_what_does_not_fit() {
    for abi in [0, 1] {
        let setup = sample("arith", "add", abi).ports(2, 1).attr("bias", 100);
        let mut node = Node::start(setup.kind("out_type", AttrKind::Type(DataType::INT64.0)));
        node.ready();
        for id in 1..=20 {
            node.feed(0, id, &[1, 2, id.cast_signed()]);
            node.feed(1, id, &[10, 20, 30]);
            let got = node.fetch(0);
            assert_eq!((got.id(), got.code(), got.user), (id, Code::SUCCESS, id));
            assert_eq!(got.ints(), [111, 122, 130 + id.cast_signed()]);
            assert_eq!((got.dims.as_slice(), got.home), (&[3][..], 1));
        }
        node.feed(0, 21, &[1]);
        node.feed(1, 21, &[1, 2]);
        node.fetch(0).assert_answer(21, Code(9_900_001));
        node.feed(0, 22, &[1]);
        let bad = node.tensor(22, &[1], &[1]);
        node.worker.of(&bad).update_msg_info(|info| info.ret_code = 9_900_077);
        node.feed_mbuf(1, bad);
        node.fetch(0).assert_answer(22, Code(9_900_077));
        node.finalize();
        let logs = node.logs();
        assert!(logs.contains("[RUN]: inputs 2, outputs 1, bias 100"), "{logs}");
        assert!(logs.contains(" WARN func node 21 | ["), "{logs}");
        assert!(logs.contains("inputs do not fit"), "{logs}");
        assert!(logs.contains("function add is registered twice: the first one is kept"), "{logs}");
    }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Index, confidence and label of a record.
fn record(bytes: &[u8]) -> (i32, f32, String) {
    let (index, confidence) = (bytes[..4].try_into().unwrap(), bytes[4..8].try_into().unwrap());
    let label = bytes[8..32].split(|byte| *byte == 0).next().unwrap();
    let label = String::from_utf8(label.to_vec()).unwrap();
    (i32::from_le_bytes(index), f32::from_le_bytes(confidence), label)
}

#[test]
fn orientation_names_the_most_probable_class() {
    for abi in [0, 1] {
        let labels = texts(&["0", "90", "180", "zweihundertsiebzig"]);
        let setup = sample("orientation", "orientation", abi).kind("labels", labels);
        let mut node = Node::start(setup);
        node.ready();
        let rows = [
            [0.7, 0.1, 0.1, 0.1],
            [0.1, 0.2, 0.3, 0.4],
            [0.25, 0.25, 0.25, 0.25],
            [0.1, f32::NAN, 0.8, 0.1],
        ];
        let mbuf = node.tensor_of(1, DataType::FLOAT, &[4, 4], &floats(&rows.concat()));
        node.feed_mbuf(0, mbuf);
        let got = node.fetch(0);
        assert_eq!((got.id(), got.code(), got.dims.as_slice()), (1, Code::SUCCESS, &[4, 32][..]));
        let records: Vec<_> = got.values.chunks(32).map(record).collect();
        let expected =
            [(0, 0.7, "0"), (3, 0.4, "zweihundertsiebzig"), (0, 0.25, "0"), (-1, 0.0, "")];
        assert_eq!(records, expected.map(|(i, c, l): (i32, f32, &str)| (i, c, l.to_owned())));
        // One row without a dimension of its own; then what is refused.
        let flat = node.tensor_of(2, DataType::FLOAT, &[4], &floats(&rows[1]));
        node.feed_mbuf(0, flat);
        assert_eq!(record(&node.fetch(0).values).0, 3);
        let wide = node.tensor_of(3, DataType::FLOAT, &[1, 5], &floats(&[0.2; 5]));
        let whole = node.tensor(4, &[4], &[1, 2, 3, 4]);
        for (id, mbuf) in [(3, wide), (4, whole)] {
            node.feed_mbuf(0, mbuf);
            node.fetch(0).assert_answer(id, Code(9_900_001));
        }
        node.finalize();
    }
}

#[test]
fn orientation_without_labels_does_not_start() {
    let mut node = Node::start(sample("orientation", "orientation", 0));
    assert_eq!(Code(node.response().error_code), Code::FLOW_FUNC_PARAM_INVALID);
    node.end();
    assert!(node.logs().contains("attribute labels: a list of texts is needed"), "{}", node.logs());
}
