//! Control messages, good and bad; start-ups that fail; exit codes of bad arguments (udf §7.2 case
//! 46).
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use common::{Node, Setup};
use executor_core::error::Code;
use executor_rt::proto::{
    BatchLoadModelMessage, ClearModelRequest, ExecutorRequest, LoadModelRequest, UdfDef,
    UdfModelDef,
};
use prost::Message;
use sys::memfd;
use sys::pidfd::Event;
use sys::spawn::Spawn;

/// Each bad message gets its code, then the process ends with it; one behind it is answered too.
#[test]
fn bad_messages_get_a_code() {
    let clear = |model_id, clear_msg_type| {
        let clear_model_message = Some(ClearModelRequest { model_id, clear_msg_type });
        ExecutorRequest { clear_model_message, message_id: 77, ..Default::default() }
            .encode_to_vec()
    };
    let whole = clear(300, 1);
    let cases: [(&[u8], Code, u64, &str); 6] = [
        (b"\xff\xff\xff garbage", Code::BAD_MESSAGE, 0, "Parse control message failed."),
        (&whole[..2], Code::BAD_MESSAGE, 0, "Parse control message failed."),
        (&[], Code::FLOW_FUNC_FAILED, 0, "Parse control message failed."),
        (&vec![0; (4 << 20) + 1], Code::TOO_LARGE, 0, "Parse control message failed."),
        (&clear(1, 9), Code::FLOW_FUNC_FAILED, 77, "Unknown operator 9 failed."),
        (&whole, Code::FLOW_FUNC_NOT_SUPPORT, 77, "Execute suspend failed."),
    ];
    for (bytes, code, message_id, text) in cases {
        let mut node = Node::start(Setup::new("slow"));
        node.ready();
        node.send(0, bytes);
        let response = node.response();
        assert_eq!(Code(response.error_code), code, "{text}: {}", node.logs());
        assert_eq!((response.message_id, response.error_message.as_str()), (message_id, text));
        let exit = i32::from(executor_rt::exit::exit_code(executor_rt::server::Dialect::Udf, code));
        assert_eq!(node.end(), Event::Exited(exit));
    }
}

#[test]
fn what_comes_behind_a_failure_or_finalize_is_answered() {
    let mut node = Node::prepare(Setup::new("init-again").attr("again", 1));
    // Both are there before the process is: served in one go, after `init`.
    node.send(0, b"\xff");
    node.send(2, &[0]);
    node.spawn();
    let early = node.response();
    assert_eq!(Code(early.error_code), Code::BAD_MESSAGE, "{}", node.logs());
    assert_eq!(node.end(), Event::Exited(0), "finalize during start-up\n{}", node.logs());
    assert!(node.logs().contains("request before the init response"), "{}", node.logs());
}

#[test]
fn finalize_is_served_while_the_function_waits_for_an_mbuf() {
    let mut setup = Setup::new("hold-many").attr("count", 20);
    setup.blocks = 8;
    let mut node = Node::start(setup);
    node.ready();
    node.feed(0, 1, &[1]);
    node.until_in_function(1);
    node.send(2, &[0]);
    assert_eq!(node.end(), Event::Exited(0), "{}", node.logs());
}

fn load_file(request: LoadModelRequest) -> OwnedFd {
    let batch = BatchLoadModelMessage { models: vec![request], ..Default::default() };
    memfd::from_bytes("load", &batch.encode_to_vec()).unwrap()
}

fn model_file(change: impl FnOnce(&mut UdfDef)) -> OwnedFd {
    let mut def = UdfDef {
        name: "node".to_owned(),
        bin_name: "lib.so".to_owned(),
        func_name: "identity".to_owned(),
        ..UdfDef::default()
    };
    change(&mut def);
    let bytes = UdfModelDef { udf_def: vec![def] }.encode_to_vec();
    memfd::from_bytes("model", &bytes).unwrap()
}

#[test]
fn files_that_do_not_load_are_named() {
    let library = common::library().to_str().unwrap().to_owned();
    let no_library = |_: &mut UdfDef| {};
    let no_function = |def: &mut UdfDef| def.func_name = "nothing".to_owned();
    let bad_name = |def: &mut UdfDef| def.bin_name = "../lib.so".to_owned();
    let streams = |def: &mut UdfDef| def.stream_input_func_name.push("f".to_owned());
    let failed = Code::FLOW_FUNC_FAILED;
    type Change<'a> = &'a dyn Fn(&mut UdfDef);
    let cases: [(Change<'_>, String, Code, &str); 6] = [
        (&no_library, String::new(), failed, "cannot open shared object file"),
        (&no_library, "/bin/sh".to_owned(), failed, "dlopen: "),
        (&no_library, "libc.so.6".to_owned(), failed, "is it a library of user functions?"),
        (
            &no_function,
            library.clone(),
            failed,
            "has no function \"nothing\", it has [\"identity\"",
        ),
        (&bad_name, String::new(), failed, "bin_name: found \"../lib.so\""),
        (&streams, library, Code::FLOW_FUNC_NOT_SUPPORT, "stream functions"),
    ];
    for (change, path, code, text) in cases {
        let mut node = Node::prepare(Setup::new("identity"));
        let model = model_file(change);
        let options = executor_rt::proto::NodeOptions { library_path: path, ..Default::default() };
        let load = load_file(LoadModelRequest {
            model_path: harness::inherited(&model),
            node_options: Some(options),
            ..Default::default()
        });
        node.spawn_with(&load, &[model.as_fd()]);
        let response = node.response();
        assert_eq!(Code(response.error_code), code, "{text}: {}", node.logs());
        assert_eq!(response.error_message, "Execute init failed.");
        assert!(matches!(node.end(), Event::Exited(exit) if exit != 0));
        assert!(node.logs().contains(text), "{text}: {}", node.logs());
    }
}

#[test]
fn load_files_that_are_none_are_refused() {
    for (bytes, text) in [(&b"\xff\xff"[..], "no valid message"), (b"", "found 0 models")] {
        let mut node = Node::prepare(Setup::new("identity"));
        let load = memfd::from_bytes("load", bytes).unwrap();
        node.spawn_with(&load, &[]);
        assert_ne!(node.response().error_code, 0);
        assert!(matches!(node.end(), Event::Exited(exit) if exit != 0));
        assert!(node.logs().contains(text), "{text}: {}", node.logs());
    }
}

fn exit_of(args: &[&str]) -> (Event, String) {
    let log = memfd::append_log("log").unwrap();
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let child = Spawn {
        program: Path::new(env!("CARGO_BIN_EXE_udf-executor")),
        args: &args,
        env: &[],
        inherit: &[],
        stdin: None,
        stdout: None,
        stderr: Some(log.as_fd()),
        death_signal: None,
    }
    .spawn()
    .unwrap();
    let event = child.pidfd.wait_end().unwrap();
    (event, String::from_utf8(memfd::read_all(&log).unwrap()).unwrap())
}

#[test]
fn bad_arguments_exit_with_160() {
    const GOOD: [&str; 3] = ["--device_id=0", "--load_path=m", "--group_name=g"];
    for missing in 0..GOOD.len() {
        let words: Vec<&str> = (0..3).filter(|i| *i != missing).map(|i| GOOD[i]).collect();
        assert_eq!(exit_of(&words).0, Event::Exited(160));
    }
    for bad in [
        "--device_id=abc",
        "--device_id=1025",
        "--phy_device_id=-2",
        "--phy_device_id=1d",
        "--npu_sched=Grp1",
        "--npu_sched=2",
        "--req_queue_id=x",
        "--rsp_queue_id=1.5",
    ] {
        let (event, log) = exit_of(&[&GOOD[..], &[bad]].concat());
        assert_eq!(event, Event::Exited(160), "{bad}");
        assert!(log.contains(bad.split('=').next().unwrap()), "{log}");
    }
    let (event, log) = exit_of(&GOOD);
    assert_eq!(event, Event::Exited(160));
    assert!(log.contains("environment DFLOW_SLOT: missing"), "{log}");
}
