//! Requests, good and bad: load, unload, clear and the rest while other models run; starts that
//! fail; ends.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::os::fd::AsRawFd;

use common::{DEVICE, Device, Links, models};
use executor_core::error::Code;
use executor_core::primitive::Ordering;
use executor_rt::proto::{
    ClearModelRequest, DataflowExceptionNotify, DataflowExceptionNotifyRequest, ExecutorRequest,
    ExecutorResponse, InputAlignAttrs, LoadModelRequest, UnloadModelRequest, UpdateProfRequest,
};
use sys::pidfd::Event;
use sys::signal::Signal;

fn unload(device: &mut Device, model_id: u32) -> ExecutorResponse {
    let unload_model_message = Some(UnloadModelRequest { model_id });
    device.ask(&ExecutorRequest { unload_model_message, ..Default::default() })
}

fn clear(device: &mut Device, model_id: u32, clear_msg_type: i32) -> ExecutorResponse {
    let clear_model_message = Some(ClearModelRequest { model_id, clear_msg_type });
    device.ask(&ExecutorRequest { clear_model_message, ..Default::default() })
}

fn assert_failed(response: &ExecutorResponse, text: &str) {
    assert_eq!(Code(response.error_code), Code::FAILED, "{response:?}");
    assert!(response.error_message.contains(text), "{response:?}, expected {text:?}");
}

fn assert_good(response: &ExecutorResponse) {
    assert_eq!((response.error_code, response.error_message.as_str()), (0, "success"));
    assert_eq!(response.message_id, 0, "built-in executors do not echo it");
}

#[test]
fn models_come_and_go_while_another_runs() {
    let mut device = Device::new();
    let mut first = device.with(2, &models::plus(&[1.0]));
    // Not inherited: opened through the process that has it.
    let om = sys::memfd::from_bytes("model", &models::plus(&[5.0])).unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), om.as_raw_fd());
    let mut second = device.link(3, 1, 1);
    device.start();
    let mut id = 0;
    let mut run = |device: &mut Device, links: &mut Links, plus: f32| {
        for _ in 0..20 {
            id += 1;
            device.feed(links, 0, id, &[1.0]);
            device.fetch(links, 0).assert_data(id, &[1.0 + plus]);
        }
    };
    for _ in 0..5 {
        run(&mut device, &mut first, 1.0);
        let mut request = second.request(1, &path);
        request.root_model_id = 8;
        device.load_well(vec![request.clone()]);
        // Once more: a handle that exists is left as it is, whatever the request says.
        request.model_path = "/nothing".to_owned();
        device.load_well(vec![request]);
        run(&mut device, &mut second, 5.0);
        run(&mut device, &mut first, 1.0);
        assert_good(&unload(&mut device, 8));
        assert_failed(&unload(&mut device, 8), "Failed to get model");
        run(&mut device, &mut first, 1.0);
    }
    assert!(device.logs().contains("while others run, "), "{}", device.logs());
    device.finalize();
}

#[test]
fn what_waits_for_an_unloaded_model_is_dropped() {
    let mut device = Device::new();
    let mut links = device.link(2, 2, 2);
    let path = device.model(&models::sum(1));
    device.preload(links.request(1, &path));
    device.start();
    for id in 1..=5 {
        device.feed(&mut links, 0, id, &[1.0]);
    }
    assert_good(&unload(&mut device, 7));
    device.load_well(vec![links.request(1, &path)]);
    device.feed(&mut links, 0, 9, &[1.0]);
    device.feed(&mut links, 1, 9, &[2.0]);
    device.fetch(&mut links, 0).assert_data(9, &[3.0]);
    device.fetch(&mut links, 1).assert_data(9, &[2.0]);
    device.finalize();
}

#[test]
fn a_cleared_model_begins_anew_without_its_inputs() {
    let mut device = Device::new();
    let mut links = device.with(2, &models::plus(&[1.0]));
    let mut other = device.with(3, &models::plus(&[2.0]));
    device.start();
    device.feed(&mut links, 0, 1, &[1.0]);
    device.fetch(&mut links, 0).assert_data(1, &[2.0]);
    assert_good(&clear(&mut device, 7, 1));
    assert_eq!(device.ctl(2).state.load(Ordering::Relaxed), 7, "stopped");
    for id in 2..=4 {
        device.feed(&mut links, 0, id, &[1.0]);
    }
    assert!(device.is_silent(&mut links, 0));
    assert_good(&clear(&mut device, 7, 2));
    device.feed(&mut links, 0, 5, &[1.0]);
    device.fetch(&mut links, 0).assert_data(5, &[2.0]);
    device.feed(&mut other, 0, 6, &[1.0]);
    device.fetch(&mut other, 0).assert_data(6, &[3.0]);
    assert_failed(&clear(&mut device, 9, 1), "root model 9");
    assert_failed(&clear(&mut device, 7, 3), "clear_msg_type 3 is invalid");
    assert!(device.logs().contains("clear of model2: dropped 3 inputs"), "{}", device.logs());
    device.finalize();
}

#[test]
fn a_model_that_waits_for_room_is_stopped_cleared_and_unloaded() {
    let mut device = Device::new();
    let mut links = device.with(2, &models::plus(&[1.0]));
    device.start();
    for id in 1..=16 {
        device.feed(&mut links, 0, id, &[1.0]);
    }
    device.until("sixteen sets", 2, |ctl| ctl.set_done.load(Ordering::Acquire) == 16);
    device.feed(&mut links, 0, 17, &[1.0]);
    device.until("waiting", 2, |ctl| ctl.state.load(Ordering::Acquire) == 5);
    assert_good(&clear(&mut device, 7, 1));
    assert_good(&clear(&mut device, 7, 2));
    for id in 1..=16 {
        device.fetch(&mut links, 0).assert_data(id, &[2.0]);
    }
    device.feed(&mut links, 0, 18, &[1.0]);
    device.fetch(&mut links, 0).assert_data(18, &[2.0]);
    assert_good(&unload(&mut device, 7));
    assert!(device.is_silent(&mut links, 0), "the seventeenth was dropped");
    device.finalize();
}

#[test]
fn the_rest_of_the_protocol() {
    let mut device = Device::new();
    let _links = device.with(2, &models::plus(&[1.0]));
    device.start();
    let update_prof_message = Some(UpdateProfRequest { is_prof_start: true, ..Default::default() });
    assert_good(&device.ask(&ExecutorRequest { update_prof_message, ..Default::default() }));
    let sync_var_manager_message = Some(vec![1, 2, 3]);
    assert_good(&device.ask(&ExecutorRequest { sync_var_manager_message, ..Default::default() }));
    let exception = |root_model_id| ExecutorRequest {
        exception_notify_request: Some(DataflowExceptionNotifyRequest {
            root_model_id,
            exception_notify: Some(DataflowExceptionNotify::default()),
        }),
        message_id: 5,
        ..Default::default()
    };
    assert_good(&device.ask(&exception(7)));
    assert_failed(&device.ask(&exception(9)), "No model found");
    let nothing = device.ask(&ExecutorRequest::default());
    assert_eq!(Code(nothing.error_code), Code::UNSUPPORTED);
    assert_eq!(nothing.error_message, "request has no content");
    device.send(0, b"\xff\xff garbage");
    assert_eq!(Code(device.response().error_code), Code::BAD_MESSAGE);
    device.finalize();
}

/// Every check of a load: the text names code and reason, the slot keeps the code, nothing is left.
#[test]
fn loads_that_do_not_fit_are_refused_with_their_code() {
    let mut device = Device::new();
    let mut running = device.with(2, &models::plus(&[1.0]));
    let links = device.link(3, 2, 2);
    let good = device.model(&models::sum(2));
    let large = device.model(&models::sum(4096));
    // More than any address space has.
    let huge = device.model(&models::sum_within(2, 1 << 60));
    let mut damaged = models::sum(2).to_vec();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    let damaged = device.model(&damaged);
    let cut = device.model(&models::sum(2)[..200]);
    let garbage = device.model(b"not a program at all");
    device.start();
    type Change<'a> = &'a dyn Fn(&mut LoadModelRequest);
    let queues = |request: &mut LoadModelRequest, inputs: usize, outputs: usize| {
        let queues = request.model_queues_attrs.as_mut().unwrap();
        queues.input_queues_attrs.truncate(inputs);
        queues.output_queues_attrs.truncate(outputs);
    };
    let align = InputAlignAttrs { align_max_cache_num: 4, ..Default::default() };
    let cases: [(Change<'_>, Code, &str); 19] = [
        (&|r| queues(r, 1, 2), Code::EXEC_MODEL_QUEUE_ID_INVALID, "1 input queues"),
        (&|r| queues(r, 2, 1), Code::EXEC_MODEL_QUEUE_ID_INVALID, "1 output queues"),
        (&|r| queues(r, 2, 0), Code::EXEC_MODEL_QUEUE_ID_INVALID, "0 output queues"),
        (&|r| queues(r, 0, 0), Code::PARAM_INVALID, "no input queue"),
        (&|r| r.input_fusion_offsets = vec![0], Code::EXEC_MODEL_QUEUE_ID_INVALID, "1 fusion"),
        (&|r| r.input_fusion_offsets = vec![0, -1], Code::PARAM_INVALID, "fusion offset -1"),
        (&|r| r.is_dynamic = true, Code::UNSUPPORTED, "unknown shape"),
        (&|r| r.input_align_attrs = Some(align), Code::PARAM_INVALID, "align_timeout: found 0"),
        (&|r| r.enable_exception_catch = true, Code::FEATURE_NOT_SUPPORT, "exceptions"),
        (&|r| r.model_path = "/tmp/../x".to_owned(), Code::PARAM_INVALID, "`..` is not allowed"),
        (&|r| r.model_path = "/nothing".to_owned(), Code::PARAM_INVALID, "No such file"),
        (&|r| r.model_path = "/proc".to_owned(), Code::PARAM_INVALID, "expected a file"),
        (&|r| r.model_path.clone_from(&large), Code::TOO_LARGE, "give model1 larger blocks"),
        (&|r| r.model_path.clone_from(&huge), Code::MEMORY_ALLOCATION, "bytes of working memory"),
        (&|r| r.model_path.clone_from(&damaged), Code::PARAM_INVALID, "damaged (checksum)"),
        (&|r| r.model_path.clone_from(&cut), Code::PARAM_INVALID, "program: "),
        (&|r| r.model_path.clone_from(&garbage), Code::PARAM_INVALID, "program: "),
        (&|r| r.node_options.as_mut().unwrap().slot = 9, Code::PARAM_INVALID, "slot 9 is not one"),
        (&|r| r.node_options.as_mut().unwrap().slot = 2, Code::REPEATED_INIT, "another model"),
    ];
    for (id, (change, code, text)) in (1u64..).zip(cases) {
        let mut request = links.request(1, &good);
        request.root_model_id = 8;
        change(&mut request);
        let response = device.load(vec![request]);
        assert_failed(&response, text);
        assert_failed(&response, "Failed to batch load models: model1: ");
        assert_failed(&response, &format!("({})", code.0.cast_signed()));
        assert_failed(&unload(&mut device, 8), "Failed to get model");
        device.feed(&mut running, 0, id, &[1.0]);
        device.fetch(&mut running, 0).assert_data(id, &[2.0]);
    }
    let mut links = links;
    device.load_well(vec![links.request(1, &good)]);
    device.feed(&mut links, 0, 1, &[1.0, 1.0]);
    device.feed(&mut links, 1, 1, &[2.0, 2.0]);
    device.fetch(&mut links, 0).assert_data(1, &[3.0, 3.0]);
    device.fetch(&mut links, 1).assert_data(1, &[2.0, 2.0]);
    device.finalize();
}

#[test]
fn a_batch_stops_at_its_first_failure_and_keeps_what_was_loaded() {
    let mut device = Device::new();
    let path = device.model(&models::plus(&[1.0]));
    let mut first = device.link(2, 1, 1);
    let third = device.link(4, 1, 1);
    device.start();
    let bad = device.link(3, 2, 1);
    let models = vec![first.request(1, &path), bad.request(2, &path), third.request(3, &path)];
    assert_failed(&device.load(models), "145008");
    device.feed(&mut first, 0, 1, &[1.0]);
    device.fetch(&mut first, 0).assert_data(1, &[2.0]);
    assert_eq!(device.ctl(3).last_code.load(Ordering::Relaxed), 145_008);
    assert_eq!(device.ctl(4).state.load(Ordering::Relaxed), 2, "the third was not tried");
    device.finalize();
}

#[test]
fn a_file_on_disk_is_copied_and_saved_files_come_first() {
    let folder = std::env::temp_dir().join(format!("dflow-npu-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("model.om");
    std::fs::write(&file, &*models::plus(&[4.0])).unwrap();
    let mut device = Device::new();
    let mut links = device.link(2, 1, 1);
    let mut request = links.request(1, "/nothing");
    request.saved_model_file_path = file.to_str().unwrap().to_owned();
    device.preload(request);
    device.start();
    std::fs::remove_dir_all(&folder).unwrap();
    device.feed(&mut links, 0, 1, &[1.0]);
    device.fetch(&mut links, 0).assert_data(1, &[5.0]);
    device.finalize();
}

#[test]
fn starts_that_fail_say_why() {
    for (inputs, path, text) in
        [(2, "", "2 input queues, but the model has 1 inputs"), (1, "/nothing", "No such file")]
    {
        let mut device = Device::new();
        let links = device.link(2, inputs, 1);
        let om = device.model(&models::plus(&[1.0]));
        device.preload(links.request(1, if path.is_empty() { &om } else { path }));
        device.spawn();
        let response = device.response();
        assert!(response.error_code != 0 && response.error_message.contains(text), "{response:?}");
        assert_eq!(device.end(), Event::Exited(1), "{}", device.logs());
        let logs = device.logs();
        assert!(logs.contains("start-up failed") && logs.contains(text), "{logs}");
        let code = device.ctl(DEVICE).last_code.load(Ordering::Relaxed);
        assert_eq!(code, response.error_code);
    }
}

#[test]
fn the_base_folder_stands_before_every_path() {
    let mut device = Device::new();
    let mut links = device.link(2, 1, 1);
    let path = device.model(&models::plus(&[1.0]));
    device.base_dir = "/proc/self/";
    device.preload(links.request(1, path.trim_start_matches("/proc/self/")));
    device.start();
    device.feed(&mut links, 0, 1, &[1.0]);
    device.fetch(&mut links, 0).assert_data(1, &[2.0]);
    device.finalize();
}

#[test]
fn the_process_leads_a_group_of_its_own() {
    let mut device = Device::new();
    device.start();
    assert_eq!(device.process_group(), device.pid());
    device.finalize();
}

#[test]
fn sigterm_ends_an_idle_and_a_busy_process_well() {
    let mut device = Device::new();
    let mut links = device.with(2, &models::plus(&[1.0]));
    device.start();
    device.feed(&mut links, 0, 1, &[1.0]);
    device.fetch(&mut links, 0).assert_data(1, &[2.0]);
    device.signal(Signal::TERM);
    assert_eq!(device.end(), Event::Exited(0), "{}", device.logs());
    assert!(device.logs().contains("the process ends: SIGTERM"), "{}", device.logs());
}
