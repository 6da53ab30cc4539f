//! Models between their queues: values, codes, several models in one process.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{DEVICE, Device, models};
use executor_core::abi::{DataType, RuntimeTensorDesc};
use executor_core::error::Code;
use executor_core::primitive::Ordering;
use executor_rt::proto::{DestinationGroup, OutputDestinations};
use sys::pidfd::Event;
use sys::signal::Signal;

#[test]
fn one_model_runs_set_after_set() {
    let mut device = Device::new();
    let mut links = device.with(2, &models::plus(&[1.0, 2.0]));
    device.start();
    for id in 1..=200 {
        device.feed(&mut links, 0, id, &[10.0, 20.0]);
        let got = device.fetch(&mut links, 0);
        got.assert_data(id, &[11.0, 22.0]);
        assert_eq!((got.dims.as_slice(), got.home), (&[2][..], 2), "in the model's partition");
    }
    // Counted and published after the set was sent.
    device.until("counted", 2, |ctl| ctl.processed.load(Ordering::Relaxed) == 200);
    device.until("published", 2, |ctl| ctl.setup_allocations.load(Ordering::Relaxed) > 0);
    assert_eq!(device.ctl(2).bytes_copied.load(Ordering::Relaxed), 0);
    device.until("ready", DEVICE, |ctl| ctl.state.load(Ordering::Relaxed) == 2);
    device.finalize();
}

#[test]
fn two_models_of_one_process_do_not_meet() {
    let mut device = Device::new();
    let mut first = device.with(2, &models::plus(&[1.0]));
    let mut second = device.with(4, &models::plus(&[100.0]));
    device.start();
    for id in 1..=50 {
        device.feed(&mut first, 0, id, &[0.5]);
        device.feed(&mut second, 0, id + 1000, &[0.5]);
        device.fetch(&mut second, 0).assert_data(id + 1000, &[100.5]);
        let got = device.fetch(&mut first, 0);
        got.assert_data(id, &[1.5]);
        assert_eq!(got.home, 2);
    }
    device.finalize();
}

#[test]
fn threads_of_a_device_compute_the_runs_of_its_models_together() {
    let mut device = Device::new();
    let mut first = device.with(2, &models::mean_of_many());
    let mut second = device.with(4, &models::mean_of_many());
    device.threads = "2";
    device.start();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", device.pid())).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    let members = names.filter(|name| name.as_ref().is_ok_and(|name| name.starts_with("team-")));
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(members.count(), cores.min(2) - 1);
    for (id, x) in (1..=100).zip((0u8..10).cycle()) {
        let x = f32::from(x);
        device.feed(&mut first, 0, id, &[x]);
        device.feed(&mut second, 0, id + 1000, &[x + 1.0]);
        device.fetch(&mut first, 0).assert_data(id, &[x + 1.0]);
        device.fetch(&mut second, 0).assert_data(id + 1000, &[x + 2.0]);
    }
    for slot in [DEVICE, 2, 4] {
        assert_eq!(device.ctl(slot).runtime_allocations.load(Ordering::Relaxed), 0);
    }
    device.finalize();
}

#[test]
fn a_number_of_threads_that_is_none_is_refused() {
    for threads in ["0", "65", "two"] {
        let mut device = Device::new();
        let _links = device.with(2, &models::plus(&[1.0]));
        device.threads = threads;
        device.spawn();
        let response = device.response();
        let text = format!("--threads={threads}: expected 1 to 64");
        assert!(response.error_message.contains(&text), "{response:?}");
        assert_eq!(device.end(), Event::Exited(1), "{}", device.logs());
    }
}

#[test]
fn two_inputs_two_outputs_and_fan_out() {
    let mut device = Device::new();
    let mut links = device.link(3, 2, 3);
    let path = device.model(&models::sum(3));
    let mut request = links.request(1, &path);
    let id = |output: usize| DestinationGroup { queue_ids: vec![links.outputs[output].id().0] };
    let groups =
        |all: &[usize]| OutputDestinations { groups: all.iter().map(|o| id(*o)).collect() };
    request.output_destinations = vec![groups(&[0, 1]), groups(&[2])];
    device.preload(request);
    device.start();
    for id in 1..=100 {
        device.feed(&mut links, 0, id, &[1.0, 2.0, 3.0]);
        device.feed(&mut links, 1, id, &[10.0, 10.0, 10.0]);
        device.fetch(&mut links, 0).assert_data(id, &[11.0, 12.0, 13.0]);
        device.fetch(&mut links, 1).assert_data(id, &[11.0, 12.0, 13.0]);
        device.fetch(&mut links, 2).assert_data(id, &[2.0, 4.0, 6.0]);
    }
    device.feed(&mut links, 0, 101, &[0.0; 3]);
    device.feed(&mut links, 1, 102, &[0.0; 3]);
    for output in 0..3 {
        device.fetch(&mut links, output).assert_answer(101, Code::MISPAIRED);
    }
    device.feed(&mut links, 0, 102, &[1.0; 3]);
    for output in 0..3 {
        assert_eq!(device.fetch(&mut links, output).id(), 102, "the newer one waited");
    }
    device.finalize();
}

#[test]
fn an_output_that_nobody_reads_is_computed_and_not_sent() {
    let mut device = Device::new();
    let mut links = device.link(3, 2, 1);
    let path = device.model(&models::sum(1));
    let mut request = links.request(1, &path);
    let outputs = &mut request.model_queues_attrs.as_mut().unwrap().output_queues_attrs;
    let mut unread = outputs[0];
    unread.queue_id = u32::MAX;
    outputs.insert(0, unread);
    device.preload(request);
    device.start();
    device.feed(&mut links, 0, 1, &[2.0]);
    device.feed(&mut links, 1, 1, &[5.0]);
    device.fetch(&mut links, 0).assert_data(1, &[4.0]);
    device.finalize();
}

#[test]
fn fused_inputs_come_out_of_one_message() {
    let mut device = Device::new();
    let mut links = device.link(2, 1, 2);
    let path = device.model(&models::sum(3));
    let mut request = links.request(1, &path);
    let inputs = &mut request.model_queues_attrs.as_mut().unwrap().input_queues_attrs;
    inputs.push(inputs[0]);
    request.input_fusion_offsets = vec![0, 1];
    device.preload(request);
    device.start();
    let part = |values: [f32; 3]| {
        let desc = RuntimeTensorDesc::new(DataType::FLOAT, &[3]).unwrap();
        (desc, values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
    };
    let mbuf = device.message(1, &[part([1.0, 2.0, 3.0]), part([7.0, 7.0, 7.0])]);
    device.feed_mbuf(&mut links, 0, mbuf);
    device.fetch(&mut links, 0).assert_data(1, &[8.0, 9.0, 10.0]);
    device.fetch(&mut links, 1).assert_data(1, &[2.0, 4.0, 6.0]);
    assert_eq!(device.ctl(2).bytes_copied.load(Ordering::Relaxed), 12, "the second lies unaligned");
    // One tensor where two are read.
    let mbuf = device.message(2, &[part([1.0, 2.0, 3.0])]);
    device.feed_mbuf(&mut links, 0, mbuf);
    device.fetch(&mut links, 0).assert_answer(2, Code::PARAM_INVALID);
    device.fetch(&mut links, 1).assert_answer(2, Code::PARAM_INVALID);
    device.finalize();
}

#[test]
fn what_does_not_fit_is_a_code_on_its_id_and_the_loop_goes_on() {
    let mut device = Device::new();
    let mut links = device.with(2, &models::plus(&[1.0, 1.0]));
    device.start();
    let cases: [(DataType, &[i64], usize); 5] = [
        (DataType::FLOAT, &[3], 3),
        (DataType::FLOAT, &[1, 2], 2),
        (DataType::INT32, &[2], 2),
        (DataType::FLOAT, &[2], 1),
        (DataType::FLOAT, &[], 1),
    ];
    for (id, (dtype, dims, values)) in (1u64..).zip(cases) {
        let mbuf = device.tensor(id, dtype, dims, &vec![0.0; values]);
        device.feed_mbuf(&mut links, 0, mbuf);
        let got = device.fetch(&mut links, 0);
        got.assert_answer(id, Code::PARAM_INVALID);
        assert_eq!(got.info.worker_id, 2, "the slot that gave the code");
    }
    let short = device.message(6, &[]);
    device.feed_mbuf(&mut links, 0, short);
    device.fetch(&mut links, 0).assert_answer(6, Code::PARAM_INVALID);
    device.feed(&mut links, 0, 7, &[1.0, 2.0]);
    device.fetch(&mut links, 0).assert_data(7, &[2.0, 3.0]);
    let logs = device.logs();
    assert!(logs.contains("input 0 is [3]; the model was compiled for [2]"), "{logs}");
    assert!(logs.contains(" model2 1 | "), "under the model's own name: {logs}");
    device.finalize();
}

#[test]
fn codes_and_missing_data_are_passed_on_to_every_output_without_a_run() {
    let mut device = Device::new();
    let mut links = device.link(2, 2, 2);
    let path = device.model(&models::sum(1));
    device.preload(links.request(1, &path));
    device.start();
    device.feed(&mut links, 0, 1, &[1.0]);
    device.feed_code(&mut links, 1, 1, Code(9999));
    device.feed_code(&mut links, 0, 2, Code::SUCCESS);
    device.feed(&mut links, 1, 2, &[1.0]);
    device.feed_code(&mut links, 0, 3, Code::SUCCESS);
    device.feed_code(&mut links, 1, 3, Code::UDF_PANIC);
    for output in 0..2 {
        let got = device.fetch(&mut links, output);
        got.assert_answer(1, Code(9999));
        assert_eq!(got.info.worker_id, 63, "the code stays its giver's");
        device.fetch(&mut links, output).assert_answer(2, Code::SUCCESS);
        device.fetch(&mut links, output).assert_answer(3, Code::UDF_PANIC);
    }
    device.finalize();
}

#[test]
fn an_end_of_a_sequence_in_any_input_reaches_all_outputs() {
    let mut device = Device::new();
    let mut links = device.link(2, 2, 2);
    let path = device.model(&models::sum(1));
    device.preload(links.request(1, &path));
    device.start();
    for (id, (last, code)) in (1..).zip([
        ([false, false], None),
        ([false, true], None),
        ([true, false], None),
        ([false, true], Some(Code::SUCCESS)),
        ([false, true], Some(Code(9999))),
        ([true, false], Some(Code(9999))),
        ([false, false], Some(Code(9999))),
    ]) {
        for (input, last) in last.into_iter().enumerate() {
            let mbuf = device.tensor(id, DataType::FLOAT, &[1], &[2.0]);
            device.worker.of(&mbuf).set_eos(last);
            if let Some(code) = code.filter(|_| input == 0) {
                device.mark(&mbuf, code);
            }
            device.feed_mbuf(&mut links, input, mbuf);
        }
        for output in 0..2 {
            let got = device.fetch(&mut links, output);
            match code {
                None => got.assert_data(id, &[4.0]),
                Some(code) => got.assert_answer(id, code),
            }
            assert_eq!(got.ends_sequence, last != [false, false], "{id}: {got:?}");
        }
    }
    // The end that belongs to another id stays with that one.
    device.feed(&mut links, 0, 8, &[1.0]);
    let last = device.tensor(9, DataType::FLOAT, &[1], &[1.0]);
    device.worker.of(&last).set_eos(true);
    device.feed_mbuf(&mut links, 1, last);
    device.feed(&mut links, 0, 9, &[1.0]);
    for (id, ends) in [(8, false), (9, true)] {
        for output in 0..2 {
            let got = device.fetch(&mut links, output);
            assert_eq!((got.id(), got.ends_sequence), (id, ends), "{got:?}");
        }
    }
    device.finalize();
}

#[test]
fn a_full_output_queue_holds_the_model_up_and_loses_nothing() {
    let mut device = Device::new();
    let mut links = device.with(2, &models::plus(&[0.0]));
    device.start();
    for id in 1..=16 {
        device.feed(&mut links, 0, id, &[1.0]);
    }
    // Sixteen results fill the queue; the next one waits for room.
    device.until("sixteen sets", 2, |ctl| ctl.set_done.load(Ordering::Acquire) == 16);
    for id in 17..=24 {
        device.feed(&mut links, 0, id, &[1.0]);
    }
    for id in 1..=24 {
        device.fetch(&mut links, 0).assert_data(id, &[1.0]);
    }
    device.finalize();
}

/// The proof that the proof works: one allocation of the runtime after seal is seen.
#[test]
fn an_allocation_after_seal_is_counted_or_aborts() {
    let mut device = Device::new();
    let _links = device.with(2, &models::plus(&[1.0]));
    device.env.push(("DFLOW_ALLOCATE_ONCE", "1"));
    device.start();
    device.send(2, &[0]);
    let event = device.end();
    if cfg!(debug_assertions) {
        assert!(matches!(event, Event::Signalled { signal: Signal::ABRT, .. }), "{event:?}");
    } else {
        assert_eq!(event, Event::Exited(0), "{}", device.logs());
        assert_eq!(device.ctl(DEVICE).runtime_allocations.load(Ordering::Relaxed), 1);
    }
}
