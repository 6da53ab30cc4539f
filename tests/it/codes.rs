//! What a function does wrong, and what its ids come to.

use dflow::WritableInputs;
use executor_core::error::Code;
use tests::flows;

use crate::support::{Flow, act, graph, message, single};

const OWN: u32 = 9_900_200;

#[test]
fn a_panic_costs_one_id() {
    let flow = Flow::start(single(act("in", "panic", 2)));
    let outcomes = flow.one_by_one(4);
    let expected = [message(1), Err(Code::UDF_PANIC.0), message(3), message(4)];
    assert_eq!(outcomes, expected);
    assert_eq!(flow.restarts(), 0);
    assert!(flow.logs().contains("asked to panic at id 2"), "{}", flow.logs());
    flow.end();
}

#[test]
fn a_code_for_one_id_travels_to_the_end() {
    let chain = graph("chain")
        .node("first", act("in", "set-code", 2))
        .node("then", flows::node("forward", &["first.out"]))
        .node("last", flows::node("pass", &["then.out"]))
        .output("out", "last.out");
    let flow = Flow::start(chain);
    assert_eq!(flow.one_by_one(3), [message(1), Err(OWN), message(3)]);
    assert_eq!(flow.restarts(), 0);
    flow.end();
}

#[test]
fn a_result_of_proc_ends_the_process_and_answers_the_id() {
    let flow = Flow::start(single(act("in", "fail", 2)));
    assert_eq!(flow.one_by_one(4), [message(1), Err(OWN), message(3), message(4)]);
    assert_eq!(flow.restarts(), 1);
    assert!(flow.logs().contains("the id is answered with it, the process ends"));
    flow.end();
}

#[test]
fn a_fault_or_an_abort_is_a_death() {
    for (what, signal) in [("segv", "SIGSEGV"), ("abort", "SIGABRT")] {
        let flow = Flow::start(single(act("in", what, 2)));
        let died = Err(Code::EXECUTOR_DIED.0);
        assert_eq!(flow.one_by_one(4), [message(1), died, message(3), message(4)]);
        assert_eq!(flow.restarts(), 1);
        assert!(flow.logs().contains(&format!("killed by {signal}")), "{}", flow.logs());
        flow.end();
    }
}

#[test]
fn a_write_into_an_input_names_function_and_input() {
    let flow = Flow::start(single(act("in", "write", 2)));
    assert_eq!(flow.one_by_one(3), [message(1), Err(Code::WRITE_FAULT.0), message(3)]);
    let logs = flow.logs();
    assert!(logs.contains("function act wrote into input 0"), "{logs}");
    assert!(logs.contains("partition of slot 0"), "{logs}");
    flow.end();
}

#[test]
fn copied_inputs_may_be_written() {
    let node = act("in", "write", 2).writable_inputs(WritableInputs::Copy);
    let flow = Flow::start(single(node));
    let outcomes = flow.one_by_one(3);
    let mut written = message(2).unwrap();
    written[0] = 7;
    assert_eq!(outcomes, [message(1), Ok(written), message(3)]);
    assert_eq!(flow.restarts(), 0);
    assert_eq!(flow.session.nodes()[0].bytes_copied, 3 * (1024 + 16 * 8));
    flow.end();
}

#[test]
fn no_output_is_an_answer() {
    let flow = Flow::start(single(act("in", "nothing", 2)));
    assert_eq!(flow.one_by_one(3), [message(1), Err(Code::NO_OUTPUT.0), message(3)]);
    let event = {
        flow.feed(4);
        flow.event()
    };
    assert_eq!(event.trans_id, 4);
    drop(event);
    flow.end();
}
