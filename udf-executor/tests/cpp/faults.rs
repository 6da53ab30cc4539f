//! A function that throws, returns codes, keeps messages, floods the log, asks for the impossible.

use executor_core::abi::DataType;
use executor_core::error::Code;
use executor_core::primitive::Ordering;
use executor_rt::proto::{ArrayValue, AttrKind, ListInt, ListListInt};
use sys::pidfd::Event;

use super::common::Node;
use super::{faulty, sample, texts};

#[test]
fn an_exception_in_proc_costs_one_id() {
    for abi in [0, 1] {
        let mut node = Node::start(faulty("proc-throws", abi));
        node.ready();
        for id in 1..=8 {
            node.feed(0, id, &[1]);
            let got = node.fetch(0);
            if id % 2 == 1 {
                got.assert_answer(id, Code::UDF_PANIC);
            } else {
                assert_eq!((got.id(), got.code()), (id, Code::SUCCESS));
            }
        }
        node.finalize();
        let logs = node.logs();
        for line in [
            "node 1 | function faulty: Proc threw std::runtime_error: odd id",
            "node 3 | function faulty: Proc threw int",
            "node 5 | function faulty: Proc threw char const*: a bare text",
            "node 7 | function faulty: Proc threw std::bad_alloc: std::bad_alloc",
        ] {
            assert!(logs.contains(line), "{line}\n{logs}");
        }
        assert_eq!(node.ctl().runtime_allocations.load(Ordering::Relaxed), 0);
        assert!(node.ctl().user_allocations.load(Ordering::Relaxed) > 0, "exceptions");
    }
}

#[test]
fn a_function_that_does_not_come_to_life_is_named() {
    let cases = [
        ("throws-at-once", "", Code::FLOW_FUNC_FAILED, "the constructor threw std::logic_error"),
        ("null", "", Code::FLOW_FUNC_FAILED, "function null: its creator returned null"),
        (
            "faulty",
            "init-throws",
            Code::UDF_PANIC,
            "function faulty: Init threw std::runtime_error: no weights at /nowhere",
        ),
        ("faulty", "init-code", Code(9_900_007), "init of faulty failed"),
        ("faulty", "", Code::FLOW_FUNC_PARAM_INVALID, "no attribute mode"),
    ];
    for (function, mode, code, line) in cases {
        let setup = match mode {
            "" => sample("faulty", function, 0),
            mode => faulty(mode, 0),
        };
        let mut node = Node::start(setup);
        let response = node.response();
        assert_eq!(Code(response.error_code), code, "{function}: {}", node.logs());
        node.end();
        assert!(node.logs().contains(line), "{line}\n{}", node.logs());
    }
}

#[test]
fn codes_of_the_function_do_what_they_say() {
    let mut node = Node::start(faulty("proc-code", 1));
    node.ready();
    for id in 1..=4 {
        node.feed(0, id, &[1]);
    }
    assert_eq!((node.fetch(0).id(), node.fetch(0).id()), (1, 2));
    node.fetch(0).assert_answer(3, Code(9_900_000));
    assert_eq!(node.end(), Event::Exited(224), "the low byte of 9900000");
    for mode in ["pending", "init-again"] {
        let mut node = Node::start(faulty(mode, 0));
        node.ready();
        for id in 1..=4 {
            node.feed(0, id, &[1]);
            assert_eq!(node.fetch(0).id(), id);
        }
        node.finalize();
    }
}

#[test]
fn what_is_set_on_an_input_goes_out_with_it_and_copies_nothing() {
    let mut node = Node::start(faulty("ret-code", 0));
    node.ready();
    node.feed(0, 1, &[5, 6]);
    let got = node.fetch(0);
    assert_eq!((got.code(), got.ints(), got.home), (Code(9_999_999), vec![5, 6], 0));
    let info = got.info;
    assert_eq!((info.start_time, info.end_time, info.flags, info.route_label), (11, 22, 1, 33));
    assert_eq!(node.ctl().bytes_copied.load(Ordering::Relaxed), 0);
    node.finalize();
}

#[test]
fn messages_kept_beyond_proc_are_dead_and_harmless() {
    for abi in [0, 1] {
        let mut node = Node::start(faulty("keeps", abi));
        node.ready();
        for id in 1..=50 {
            node.feed(0, id, &[1]);
            let got = node.fetch(0);
            assert_eq!((got.id(), got.code()), (id, Code::SUCCESS), "{}", node.logs());
        }
        node.finalize();
        assert!(node.logs().contains("messages can't be kept beyond Proc"), "{}", node.logs());
    }
}

#[test]
fn calls_on_messages_shapes_outputs_and_user_data_answer_as_specified() {
    for abi in [0, 1] {
        let mut node = Node::start(faulty("messages", abi));
        node.ready();
        node.feed(0, 7, &[1]);
        let got = node.fetch(0);
        assert_eq!((got.id(), got.code()), (7, Code::SUCCESS), "{}", node.logs());
        assert!(got.dims.is_empty());
        assert_eq!(got.values, [0; 4], "{}", node.logs());
        node.finalize();
    }
}

#[test]
fn attributes_are_read_by_the_type_of_the_variable() {
    let array = |change: &dyn Fn(&mut ArrayValue)| {
        let mut array = ArrayValue::default();
        change(&mut array);
        AttrKind::Array(array)
    };
    let lists = [vec![1, 2], vec![]].map(|i| ListInt { i }).to_vec();
    for abi in [0, 1] {
        let setup = faulty("attrs", abi)
            .attr("number", -5)
            .kind("real", AttrKind::F(0.5))
            .kind("truth", AttrKind::B(true))
            .kind("type", AttrKind::Type(DataType::INT8.0))
            .kind("texts", texts(&["north", ""]))
            .kind("numbers", array(&|array| array.i = vec![1, 2, 3]))
            .kind("lists", AttrKind::ListListI(ListListInt { list_list_i: lists.clone() }))
            .kind("reals", array(&|array| array.f = vec![1.0, 2.0]))
            .kind("truths", array(&|array| array.b = vec![true, false]))
            .kind("types", array(&|array| array.r#type = vec![0, 27]))
            .kind("nothing-in-it", array(&|_| ()));
        let mut node = Node::start(setup);
        node.ready();
        node.finalize();
    }
}

/// Edge case 45 of udf §7.2 through the macros: 400 lines at once of each class, drops counted.
#[test]
fn a_flood_of_lines_is_cut_and_counted() {
    let mut node = Node::start(faulty("floods", 0));
    node.ready();
    node.feed(0, 1, &[1]);
    assert_eq!(node.fetch(0).id(), 1);
    node.finalize();
    let logs = node.logs();
    let lines = |mark: &str| logs.lines().filter(|line| line.contains(mark)).count();
    // A second may pass meanwhile: each lets 50 more through.
    assert!((400..1000).contains(&lines(" WARN func node 1 | [")), "{}", lines(" WARN func "));
    assert!((400..1000).contains(&lines(" ERROR run node 1 | [")), "{}", lines(" ERROR run "));
    assert!(logs.contains("][RUN]: line 0"), "{logs}");
    // From a thread of the function, with bytes that are no UTF-8.
    assert!(logs.contains("bytes that are no text: ?|?"), "{logs}");
    assert!(logs.contains("dropped by the rate limiter: 0 info, "), "{logs}");
}

#[test]
fn an_allocation_that_fails_costs_one_id() {
    let mut setup = faulty("holds", 0);
    setup.blocks = 8;
    setup.request_attrs.push(("_dflow_alloc_timeout_ms", "20"));
    let mut node = Node::start(setup);
    node.ready();
    for id in 1..=2 {
        node.feed(0, id, &[1]);
        node.fetch(0).assert_answer(id, Code::NO_MBUF);
    }
    node.finalize();
    let line = "Proc returned 564000 after an allocation had failed: only this id is answered";
    assert!(node.logs().contains(line), "{}", node.logs());
}
