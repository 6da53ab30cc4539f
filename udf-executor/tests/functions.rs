//! A real process per test: what each kind of function does to its messages.

mod common;

use common::{Node, Setup};
use executor_core::error::Code;
use executor_core::primitive::Ordering;

#[test]
fn identity_forwards_without_a_copy() {
    let mut node = Node::start(Setup::new("identity"));
    node.ready();
    for id in 1..=200u64 {
        node.feed(0, id, &[id.cast_signed(), 7]);
        let got = node.fetch(0);
        assert_eq!((got.id(), got.code(), got.user), (id, Code::SUCCESS, id));
        assert_eq!(got.ints(), [id.cast_signed(), 7]);
        assert_eq!(got.home, 0, "still the host's block");
    }
    assert_eq!(node.ctl().bytes_copied.load(Ordering::Relaxed), 0);
    node.finalize();
    assert_eq!(node.ctl().processed.load(Ordering::Relaxed), 200);
}
