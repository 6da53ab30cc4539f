//! The promise of the loop: after seal, no call of the malloc family by the runtime, whatever the
//! function allocates. Debug builds of the executor abort on the first one; here the counters are
//! read.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Node, Setup};
use executor_core::primitive::Ordering;
use sys::clock::MonoTime;

const MESSAGES: u64 = 100_000;
const BATCH: u64 = 16;

fn run(node: &mut Node, outputs: usize, messages: u64) -> f64 {
    let start = MonoTime::now();
    let mut fed = 0;
    while fed < messages {
        for id in fed + 1..=fed + BATCH {
            node.feed(0, id, &[1, 2]);
        }
        for id in fed + 1..=fed + BATCH {
            for output in 0..outputs {
                assert_eq!(node.fetch(output).id(), id);
            }
        }
        fed += BATCH;
    }
    let micros =
        std::time::Duration::from_nanos(MonoTime::now().since_ns(start)).as_secs_f64() * 1e6;
    micros / f64::from(u32::try_from(messages).unwrap())
}

fn check(function: &'static str, outputs: u32, messages: u64, user_allocates: bool) {
    let mut node = Node::start(Setup::new(function).ports(1, outputs));
    node.ready();
    let micros = run(&mut node, outputs as usize, messages);
    node.finalize();
    let ctl = node.ctl();
    println!("{function}: {micros:.2} us a message, host and checks included");
    assert_eq!(ctl.processed.load(Ordering::Relaxed), messages);
    assert_eq!(ctl.runtime_allocations.load(Ordering::Relaxed), 0);
    assert!(ctl.setup_allocations.load(Ordering::Relaxed) > 0, "the counter counts");
    let user = ctl.user_allocations.load(Ordering::Relaxed);
    assert_eq!(user > 0, user_allocates, "{user}");
}

#[test]
fn identity() {
    check("identity", 1, MESSAGES, false);
}

#[test]
fn reshaping_and_copying() {
    check("two-outputs", 2, MESSAGES / 10, false);
}

#[test]
fn panics_allocate_as_user_code() {
    check("panic-on-odd", 1, MESSAGES / 10, true);
}
