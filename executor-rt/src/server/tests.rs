//! Both dialects, in and out of order, and bytes from anywhere.

use super::*;
use crate::proto::{
    CONTROL_BYTES_MAX, ClearModelRequest, DataflowExceptionNotify, ExecutorRequestType,
    LoadModelRequest,
};
use proptest::prelude::*;
use prost::Message;

fn ready(dialect: Dialect) -> MessageServer {
    let mut server = MessageServer::new(dialect);
    assert!(!server.init(Ok(())).unwrap().stop);
    server
}

fn reply(action: Action) -> Reply {
    match action {
        Action::Reply(reply) => reply,
        other => panic!("expected a reply, found {other:?}"),
    }
}

fn clear(clear_msg_type: i32, message_id: u64) -> Vec<u8> {
    let clear = ClearModelRequest { model_id: 4, clear_msg_type };
    ExecutorRequest { clear_model_message: Some(clear), message_id, ..Default::default() }
        .encode_to_vec()
}

fn load() -> Vec<u8> {
    let models = vec![LoadModelRequest::default()];
    let load = BatchLoadModelMessage { models, ..Default::default() };
    ExecutorRequest { batch_load_model_message: Some(load), message_id: 9, ..Default::default() }
        .encode_to_vec()
}

fn exception(kind: u32, context: usize) -> Vec<u8> {
    let notify = DataflowExceptionNotify {
        r#type: kind,
        exception_context: vec![0; context],
        ..Default::default()
    };
    let exception =
        DataflowExceptionNotifyRequest { root_model_id: 1, exception_notify: Some(notify) };
    ExecutorRequest { exception_notify_request: Some(exception), ..Default::default() }
        .encode_to_vec()
}

#[test]
fn init_responses() {
    let reply = MessageServer::new(Dialect::BuiltIn).init(Ok(())).unwrap();
    assert_eq!(reply.response.error_message, "Executor initialized success.");
    let reply = MessageServer::new(Dialect::Udf).init(Ok(())).unwrap();
    assert_eq!(reply.response.error_message, "Execute init success.");
    assert_eq!((reply.response.message_id, reply.response.error_code), (0, 0));

    let mut server = MessageServer::new(Dialect::Udf);
    let reply = server.init(Err(Failure::new(Code::GROUP_CORRUPT, "magic"))).unwrap();
    assert_eq!(reply.response.error_message, "Execute init failed.");
    assert_eq!((reply.stop, reply.detail.as_str(), server.is_done()), (true, "magic", true));
    assert!(server.init(Ok(())).is_err(), "the init response is sent once");
}

#[test]
fn builtin_bodies_become_actions_without_echo() {
    let mut server = ready(Dialect::BuiltIn);
    assert!(matches!(server.receive(0, &load()), Action::Load(load) if load.models.len() == 1));
    let done = server.complete(Ok(())).unwrap();
    assert_eq!((done.response.message_id, done.response.error_code), (0, 0));
    assert_eq!(done.response.error_message, TEXT_SUCCESS);

    assert!(matches!(
        server.receive(0, &clear(2, 5)),
        Action::Clear { model_id: 4, clear: Clear::Restart }
    ));
    let failure = Failure::new(Code::FAILED, TEXT_NO_SUCH_MODEL);
    let failed = server.complete(Err(failure)).unwrap();
    assert_eq!(failed.response.error_code, u32::MAX);
    assert_eq!(failed.response.error_message, "Failed to get model");
    assert!(!failed.stop && !server.is_done(), "a built-in executor goes on");

    for (field, request) in [
        (5, &[0x2a, 2, 8, 3][..]),
        (1, &[0x0a, 1, 7][..]),
        (8, &[0x42, 2, 8, 1][..]),
        (7, &exception(0, 256)[..]),
    ] {
        let action = server.receive(0, request);
        let fits = match field {
            5 => matches!(action, Action::Unload(UnloadModelRequest { model_id: 3 })),
            1 => action == Action::SyncVar(vec![7]),
            8 => matches!(action, Action::Profiling(ref prof) if prof.is_prof_start),
            _ => matches!(action, Action::Exception(_)),
        };
        assert!(fits, "field {field}: {action:?}");
        assert!(server.complete(Ok(())).is_ok());
    }
}

/// Conformance §9.6: request without body; clear type 3.
#[test]
fn builtin_refusals_have_codes_and_the_loop_goes_on() {
    let mut server = ready(Dialect::BuiltIn);
    let cases: [(Vec<u8>, Code, &str); 7] = [
        (vec![], Code::UNSUPPORTED, "request has no content"),
        (vec![0x22, 0], Code::UNSUPPORTED, "request has no content"),
        (clear(3, 0), Code::FAILED, "clear_msg_type 3 is invalid"),
        (exception(2, 0), Code::FAILED, "exception type 2"),
        (exception(0, 257), Code::PARAM_INVALID, "257 bytes"),
        (vec![0x3a, 0], Code::BAD_MESSAGE, "without its exception"),
        (vec![0xff; 3], Code::BAD_MESSAGE, "3 bytes that are no valid message"),
    ];
    for (bytes, code, text) in cases {
        let reply = reply(server.receive(0, &bytes));
        assert_eq!(Code(reply.response.error_code), code, "{text}");
        assert!(reply.response.error_message.contains(text), "{}", reply.response.error_message);
        assert!(!reply.stop);
    }
    let oversized = vec![0; CONTROL_BYTES_MAX + 1];
    let refused = reply(server.receive(0, &oversized));
    assert_eq!(Code(refused.response.error_code), Code::TOO_LARGE);
    let mut truncated = load();
    truncated.pop();
    let refused = reply(server.receive(0, &truncated));
    assert_eq!(Code(refused.response.error_code), Code::BAD_MESSAGE);
    assert!(matches!(server.receive(0, &load()), Action::Load(_)));
}

/// Edge case 25, with the echo of executor-deployer §1.5.
#[test]
fn udf_texts_and_echo() {
    let mut server = ready(Dialect::Udf);
    for (request, id, text) in [
        (clear(1, 11), 11, "Execute suspend success."),
        (clear(2, 12), 12, "Execute recover success."),
        (exception(0, 256), 0, "Execute exception message success."),
    ] {
        assert!(!matches!(server.receive(0, &request), Action::Reply(_)));
        let done = server.complete(Ok(())).unwrap();
        assert_eq!(done.response.error_message, text);
        assert_eq!((done.response.message_id, done.response.error_code, done.stop), (id, 0, false));
    }
    assert!(matches!(server.receive(0, &clear(1, 13)), Action::Clear { clear: Clear::Stop, .. }));
    let failed = server.complete(Err(Failure::new(Code(0x94), "suspend"))).unwrap();
    assert_eq!(failed.response.error_message, "Execute suspend failed.");
    assert_eq!((failed.response.error_code, failed.response.message_id), (0x94, 13));
    assert!(failed.stop && server.is_done());
}

#[test]
fn udf_refusals_stop_the_process() {
    let notify =
        ExecutorRequest { r#type: ExecutorRequestType::Notify.into(), ..Default::default() };
    let cases: [(Vec<u8>, Code, &str); 8] = [
        (vec![], Code::FLOW_FUNC_FAILED, "Parse control message failed."),
        (vec![0xff], Code::BAD_MESSAGE, "Parse control message failed."),
        (vec![0; CONTROL_BYTES_MAX + 1], Code::TOO_LARGE, "Parse control message failed."),
        (load(), Code::FLOW_FUNC_NOT_SUPPORT, "Parse control message failed."),
        (notify.encode_to_vec(), Code::FLOW_FUNC_FAILED, "Unknown operator 0 failed."),
        (clear(7, 1), Code::FLOW_FUNC_FAILED, "Unknown operator 7 failed."),
        (exception(9, 0), Code::FLOW_FUNC_FAILED, "Execute exception message failed."),
        (exception(1, 1024), Code::FLOW_FUNC_PARAM_INVALID, "Execute exception message failed."),
    ];
    for (bytes, code, text) in cases {
        let mut server = ready(Dialect::Udf);
        let refused = reply(server.receive(0, &bytes));
        assert_eq!(Code(refused.response.error_code), code, "{text}");
        assert_eq!(refused.response.error_message, text);
        assert!(refused.stop && server.is_done() && !refused.detail.is_empty());
        let late = reply(server.receive(0, &clear(1, 3)));
        assert_eq!((late.response.message_id, late.stop), (3, false));
        assert!(late.detail.contains("after a failure"), "{}", late.detail);
    }
}

#[test]
fn out_of_order_messages_get_a_code() {
    for dialect in [Dialect::BuiltIn, Dialect::Udf] {
        let mut server = MessageServer::new(dialect);
        let early = reply(server.receive(0, &clear(1, 2)));
        assert_eq!(Code(early.response.error_code), Code::BAD_MESSAGE);
        assert!(early.detail.contains("before the init response"));
        server.init(Ok(())).unwrap();
        assert!(server.complete(Ok(())).is_err(), "nothing is open");

        assert!(!matches!(server.receive(0, &clear(1, 5)), Action::Reply(_)));
        assert!(server.is_open());
        let second = reply(server.receive(0, &clear(2, 6)));
        assert!(second.detail.contains("while request 5"), "{}", second.detail);
        let early = reply(server.receive(MSG_TYPE_FINALIZE, &[0]));
        assert!(early.detail.contains("finalize while"), "{}", early.detail);
        server.complete(Ok(())).unwrap();

        assert_eq!(server.receive(MSG_TYPE_FINALIZE, &[0]), Action::Finalize);
        assert!(server.is_done());
        let twice = reply(server.receive(MSG_TYPE_FINALIZE, &[0]));
        assert_eq!(Code(twice.response.error_code), Code::BAD_MESSAGE);
        assert!(twice.detail.contains("finalize after finalize"), "{}", twice.detail);
        let late = reply(server.receive(0, &load()));
        assert!(late.detail.contains("request after finalize"), "{}", late.detail);
    }
}

#[test]
fn finalize_before_the_init_response_leaves() {
    let mut server = MessageServer::new(Dialect::BuiltIn);
    assert_eq!(server.receive(MSG_TYPE_FINALIZE, &[]), Action::Finalize);
    assert!(server.init(Ok(())).is_err());
}

proptest! {
    /// I1 and I3: whatever comes, each message gets one reply or one action.
    #[test]
    fn any_bytes_get_one_reply(
        messages in proptest::collection::vec(
            (0_u16..4, proptest::collection::vec(any::<u8>(), 0..40)), 1..12),
        udf in any::<bool>(),
    ) {
        let mut server = ready(if udf { Dialect::Udf } else { Dialect::BuiltIn });
        for (msg_type, bytes) in messages {
            let was_done = server.is_done();
            let action = server.receive(msg_type, &bytes);
            if server.is_open() {
                prop_assert!(!matches!(action, Action::Reply(_) | Action::Finalize));
                prop_assert!(server.complete(Ok(())).is_ok());
            } else if let Action::Reply(reply) = action {
                prop_assert!(reply.response.error_code != 0);
            } else {
                prop_assert_eq!(action, Action::Finalize);
                prop_assert!(!was_done);
            }
        }
    }
}
