//! The states of a model (device-runtime §3.2) as requests change them, and what each allows.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Device, models};
use executor_core::error::Code;
use executor_core::model_state::ModelState::{self, Idle, Running, Stopped, Uninit};
use executor_core::primitive::Ordering;
use executor_rt::proto::{
    ClearModelRequest, ExecutorRequest, ExecutorResponse, LoadModelRequest, UnloadModelRequest,
};

const STOP: i32 = 1;
const RESTART: i32 = 2;

fn clear(device: &mut Device, clear_msg_type: i32) -> ExecutorResponse {
    let clear_model_message = Some(ClearModelRequest { model_id: 7, clear_msg_type });
    device.ask(&ExecutorRequest { clear_model_message, ..Default::default() })
}

fn unload(device: &mut Device) -> ExecutorResponse {
    let unload_model_message = Some(UnloadModelRequest { model_id: 7 });
    device.ask(&ExecutorRequest { unload_model_message, ..Default::default() })
}

fn state(device: &Device, slot: u32) -> ModelState {
    ModelState::from_word(device.ctl(slot).model.load(Ordering::Acquire)).unwrap()
}

fn until(device: &Device, wanted: ModelState) {
    device.until("state", 2, |ctl| ctl.model.load(Ordering::Acquire) == wanted as u64);
}

fn assert_refused(response: &ExecutorResponse, text: &str) {
    assert_eq!(Code(response.error_code), Code::AICPU_STATE, "{response:?}");
    assert!(response.error_message.contains(text), "{response:?}, expected {text:?}");
}

/// A device whose model in slot 2 is in this state.
fn device_in(wanted: ModelState) -> (Device, common::Links, LoadModelRequest) {
    let mut device = Device::new();
    let links = device.link(2, 1, 1);
    let path = device.model(&models::plus(&[1.0]));
    let mut request = links.request(2, &path);
    let mut links = links;
    if wanted == Idle {
        request.execute_times = 1;
    }
    device.start();
    if wanted != Uninit {
        device.load_well(vec![request.clone()]);
    }
    match wanted {
        Idle => {
            device.feed(&mut links, 0, 1, &[1.0]);
            device.fetch(&mut links, 0).assert_data(1, &[2.0]);
        }
        Stopped => assert_eq!(clear(&mut device, STOP).error_code, 0),
        _ => {}
    }
    until(&device, wanted);
    (device, links, request)
}

/// Each request in each state that requests and sets lead to.
#[test]
fn v7_34_every_request_in_every_state() {
    type Request = fn(&mut Device) -> ExecutorResponse;
    let stop: Request = |device| clear(device, STOP);
    let restart: Request = |device| clear(device, RESTART);
    let cases: [(ModelState, Request, Result<ModelState, &str>); 12] = [
        (Uninit, stop, Err("Failed to get model")),
        (Uninit, restart, Err("Failed to get model")),
        (Uninit, unload, Err("Failed to get model")),
        (Running, stop, Ok(Stopped)),
        (Running, restart, Err("model2: clearInput is not allowed in the state RUNNING")),
        (Running, unload, Ok(Uninit)),
        (Idle, stop, Ok(Stopped)),
        (Idle, restart, Err("model2: clearInput is not allowed in the state IDLE")),
        (Idle, unload, Ok(Uninit)),
        (Stopped, stop, Err("model2: stop is not allowed in the state STOPPED")),
        (Stopped, restart, Ok(Running)),
        (Stopped, unload, Ok(Uninit)),
    ];
    for (from, request, outcome) in cases {
        let (mut device, mut links, _) = device_in(from);
        let response = request(&mut device);
        match outcome {
            Ok(next) => {
                assert_eq!(response.error_code, 0, "{from}: {response:?}");
                assert_eq!(state(&device, 2), next, "from {from}");
            }
            Err(text) if from == Uninit => {
                assert_eq!(Code(response.error_code), Code::FAILED);
                assert!(response.error_message.contains(text), "{response:?}");
            }
            Err(text) => {
                assert_refused(&response, text);
                assert_eq!(state(&device, 2), from);
            }
        }
        if from == Running && outcome.is_err() {
            // What was refused changed nothing.
            device.feed(&mut links, 0, 5, &[4.0]);
            device.fetch(&mut links, 0).assert_data(5, &[5.0]);
        }
        device.finalize();
    }
}

#[test]
fn a_clear_that_one_model_does_not_allow_touches_none() {
    let (mut device, _links, _) = device_in(Stopped);
    let mut second = device.link(3, 1, 1);
    let om = models::plus(&[2.0]);
    let fd = sys::memfd::from_bytes("model", &om).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&fd);
    let path = format!("/proc/{}/fd/{number}", std::process::id());
    device.load_well(vec![second.request(3, &path)]);
    assert_refused(&clear(&mut device, STOP), "model2: stop is not allowed");
    assert_refused(&clear(&mut device, RESTART), "model3: clearInput is not allowed");
    assert_eq!([state(&device, 2), state(&device, 3)], [Stopped, Running]);
    device.feed(&mut second, 0, 1, &[1.0]);
    device.fetch(&mut second, 0).assert_data(1, &[3.0]);
    device.finalize();
}

#[test]
fn after_its_rounds_a_model_is_idle_and_its_inputs_wait() {
    let mut device = Device::new();
    let mut links = device.link(2, 1, 1);
    let path = device.model(&models::plus(&[1.0]));
    let mut request = links.request(2, &path);
    request.execute_times = 3;
    device.preload(request);
    device.start();
    for id in 1..=5 {
        // What is passed on without a run is a round, too.
        match id {
            2 => device.feed_code(&mut links, 0, id, Code(9999)),
            _ => device.feed(&mut links, 0, id, &[1.0]),
        }
    }
    device.fetch(&mut links, 0).assert_data(1, &[2.0]);
    device.fetch(&mut links, 0).assert_answer(2, Code(9999));
    device.fetch(&mut links, 0).assert_data(3, &[2.0]);
    until(&device, Idle);
    device.until_said("IDLE after 3 sets; its inputs wait");
    // The two others are in their queue still: a clear drops them, and three rounds begin.
    assert_eq!(clear(&mut device, STOP).error_code, 0);
    assert_eq!(clear(&mut device, RESTART).error_code, 0);
    device.until_said("clear of model2: dropped 2 inputs");
    for id in 6..=8 {
        device.feed(&mut links, 0, id, &[1.0]);
        device.fetch(&mut links, 0).assert_data(id, &[2.0]);
    }
    until(&device, Idle);
    assert!(device.is_silent(&mut links, 0));
    // A successor is loaded anew: its rounds begin, with what waits.
    device.feed(&mut links, 0, 9, &[1.0]);
    device.kill_and_restart();
    device.fetch(&mut links, 0).assert_data(9, &[2.0]);
    until(&device, Running);
    device.finalize();
}
