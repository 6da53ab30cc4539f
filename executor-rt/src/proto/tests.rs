//! Golden bytes, dispatch order, and bytes from anywhere.

use super::*;
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden_response() {
    let response =
        ExecutorResponse { message_id: 7, error_code: 145_008, error_message: "queues".to_owned() };
    let bytes = response.encode_to_vec();
    assert_eq!(hex(&bytes), "080710f0ec081a06717565756573");
    assert_eq!(decode_response(&bytes), Ok(response));
}

#[test]
fn golden_clear_request() {
    let request = ExecutorRequest {
        clear_model_message: Some(ClearModelRequest { model_id: 3, clear_msg_type: 2 }),
        r#type: ExecutorRequestType::Clear.into(),
        message_id: 300,
        ..Default::default()
    };
    let bytes = request.encode_to_vec();
    assert_eq!(hex(&bytes), "3204080310024805".to_owned() + "50ac02");
    assert_eq!(decode_request(&bytes), Ok(request));
}

#[test]
fn golden_exception_request() {
    let notify = DataflowExceptionNotify {
        r#type: 1,
        exception_code: -1,
        trans_id: 9,
        scope: "s".to_owned(),
        user_context_id: 2,
        exception_context: vec![0xaa],
    };
    let request = ExecutorRequest {
        exception_notify_request: Some(DataflowExceptionNotifyRequest {
            root_model_id: 4,
            exception_notify: Some(notify),
        }),
        ..Default::default()
    };
    let expected =
        "3a1b0804121708".to_owned() + "0110ffffffffffffffffff0118092201732802" + "3201aa";
    assert_eq!(hex(&request.encode_to_vec()), expected);
}

#[test]
fn golden_load_model_with_extensions() {
    let model = LoadModelRequest {
        root_model_id: 1,
        model_path: "m".to_owned(),
        execute_times: -1,
        model_queues_attrs: Some(ModelQueuesAttrs {
            input_queues_attrs: vec![QueueAttrs {
                queue_id: 5,
                device_type: 1,
                ..Default::default()
            }],
            output_queues_attrs: vec![],
        }),
        output_destinations: vec![OutputDestinations {
            groups: vec![DestinationGroup { queue_ids: vec![6, 7] }],
        }],
        node_options: Some(NodeOptions { poison_limit: 3, ..Default::default() }),
        input_align_time: Some(InputAlignTime {
            interval: 5,
            offsets: vec![0, 2],
            timeout_ms: 300,
        }),
        ..Default::default()
    };
    let bytes = model.encode_to_vec();
    let fields = [
        "0801",                     // root_model_id 1
        "1a016d",                   // model_path "m"
        "9001ffffffffffffffffff01", // execute_times -1
        "ba01060a0408051001",       // queues: one input, queue 5 on CPU
        "ca3e060a040a020607",       // 1001: one group [6, 7]
        "d23e021803",               // 1002: poison_limit 3
        "da3e090805120200",         // 1003: interval 5, offsets [0,
        "0218ac02",                 // 2], timeout_ms 300
    ];
    assert_eq!(hex(&bytes), fields.concat());
    assert_eq!(LoadModelRequest::decode(bytes.as_slice()), Ok(model));
}

#[test]
fn golden_udf_model_and_status() {
    let model = UdfModelDef {
        udf_def: vec![UdfDef {
            name: "n".to_owned(),
            attrs: [("k".to_owned(), AttrValue { value: Some(AttrKind::I(-2)) })].into(),
            func_inputs_map: [("f".to_owned(), ListUint32 { num: vec![0, 1] })].into(),
            ..Default::default()
        }],
    };
    let bytes = model.encode_to_vec();
    let fields =
        ["0a20", "0a016e", "2a100a016b120b18feffffffffffffffff01", "3a090a016612040a020001"];
    assert_eq!(hex(&bytes), fields.concat());
    assert_eq!(decode_udf_model(&bytes), Ok(model));

    let status = SubmodelStatus {
        model_uuid: 8,
        queue_statuses: vec![QueueStatus {
            queue_attrs: Some(QueueAttrs { queue_id: 1, logic_id: 2, ..Default::default() }),
            queue_depth: u32::MAX,
            input_consume_num: 3,
        }],
        ..Default::default()
    };
    let bytes = status.encode_to_vec();
    assert_eq!(hex(&bytes), "0808120e0a040801200210ffffffff0f1803");
    assert_eq!(decode_status(&bytes), Ok(status));
}

#[test]
fn dispatch_takes_the_bodies_in_their_order() {
    let mut request = ExecutorRequest {
        sync_var_manager_message: Some(vec![1]),
        batch_load_model_message: Some(BatchLoadModelMessage::default()),
        load_model_message: Some(vec![]),
        unload_model_message: Some(UnloadModelRequest { model_id: 1 }),
        clear_model_message: Some(ClearModelRequest::default()),
        exception_notify_request: Some(DataflowExceptionNotifyRequest::default()),
        update_prof_message: Some(UpdateProfRequest::default()),
        ..Default::default()
    };
    assert!(matches!(dispatch(&request), Ok(Body::Load(_))));
    request.batch_load_model_message = None;
    assert!(matches!(dispatch(&request), Ok(Body::Unload(_))));
    request.unload_model_message = None;
    assert_eq!(dispatch(&request), Ok(Body::SyncVar(&[1])));
    request.sync_var_manager_message = None;
    assert!(matches!(dispatch(&request), Ok(Body::Clear(_))));
    request.clear_model_message = None;
    assert!(matches!(dispatch(&request), Ok(Body::Exception(_))));
    request.exception_notify_request = None;
    assert!(matches!(dispatch(&request), Ok(Body::Profiling(_))));
    request.update_prof_message = None;
    assert_eq!(dispatch(&request), Err(Code::UNSUPPORTED), "field 4 alone is no body");
}

#[test]
fn limits_are_named() {
    let huge = vec![0_u8; CONTROL_BYTES_MAX + 1];
    let error = decode_request(&huge).unwrap_err();
    assert_eq!(error, DecodeError::TooLarge { found: 4_194_305, limit: 4_194_304 });
    assert_eq!(error.code(), Code::TOO_LARGE);

    let many = BatchLoadModelMessage {
        models: vec![LoadModelRequest::default(); MODELS_MAX + 1],
        ..Default::default()
    };
    let error = decode_load_file(&many.encode_to_vec()).unwrap_err();
    assert_eq!(error, DecodeError::TooMany { found: 1025, limit: 1024 });

    let defs = [0x0a, 0].repeat(UDF_DEFS_MAX + 1);
    assert_eq!(decode_udf_model(&defs).unwrap_err().code(), Code::TOO_LARGE);
}

#[test]
fn fields_of_the_future_are_skipped() {
    let mut bytes = ExecutorResponse { message_id: 1, ..Default::default() }.encode_to_vec();
    bytes.extend([0xd2, 0x3e, 2, 9, 9]);
    assert_eq!(decode_response(&bytes).map(|response| response.message_id), Ok(1));
}

#[test]
fn destination_by_trans_id() {
    let group = DestinationGroup { queue_ids: vec![10, 11, 12] };
    assert_eq!(group.queue_for(0), Some(10));
    assert_eq!(group.queue_for(u64::MAX), Some(10));
    assert_eq!(group.queue_for(5), Some(12));
    assert_eq!(DestinationGroup::default().queue_for(5), None);
}

fn sample() -> Vec<u8> {
    let model = LoadModelRequest {
        model_path: "path".to_owned(),
        attrs: [("a".to_owned(), "b".to_owned())].into(),
        invoked_model_queues_attrs: [("k".to_owned(), ModelQueuesAttrs::default())].into(),
        input_fusion_offsets: vec![0, 1],
        node_options: Some(NodeOptions::default()),
        ..Default::default()
    };
    let load = BatchLoadModelMessage { models: vec![model], ..Default::default() };
    ExecutorRequest { batch_load_model_message: Some(load), message_id: 1, ..Default::default() }
        .encode_to_vec()
}

proptest! {
    #[test]
    fn any_bytes_end_as_a_value_or_a_code(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let codes = [
            decode_request(&bytes).err(),
            decode_load_file(&bytes).err(),
            decode_udf_model(&bytes).err(),
            decode_response(&bytes).err(),
            decode_status(&bytes).err(),
        ];
        for error in codes.into_iter().flatten() {
            prop_assert!(!error.code().is_success());
        }
    }

    #[test]
    fn truncated_or_flipped_requests_never_panic(
        cut in 0_usize..64,
        at in any::<prop::sample::Index>(),
        flip in any::<u8>(),
    ) {
        let mut bytes = sample();
        bytes.truncate(bytes.len().saturating_sub(cut));
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        let _outcome = decode_request(&bytes).map(|request| dispatch(&request).is_ok());
    }
}
