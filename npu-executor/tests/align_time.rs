//! Models whose inputs are put together by time: near ones, old ones, offsets, waiting, and what
//! outlives a death.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Device, Links, models};
use executor_core::abi::DataType;
use executor_core::error::Code;
use executor_core::primitive::Ordering;
use executor_rt::proto::{InputAlignAttrs, InputAlignTime};

const APART: Code = Code::AICPU_DISCARD_DATA;
const TIMELESS: Code = Code::AICPU_PARAM_INVALID;

/// A model of two inputs and two outputs: the sum, and twice the first.
fn device(offsets: &[u64], timeout_ms: u32) -> (Device, Links) {
    let mut device = Device::new();
    let links = device.link(2, 2, 2);
    let path = device.model(&models::sum(1));
    let mut request = links.request(2, &path);
    request.input_align_time =
        Some(InputAlignTime { interval: 5, offsets: offsets.to_vec(), timeout_ms });
    device.preload(request);
    (device, links)
}

/// A message of begin and end.
fn feed_of(
    device: &mut Device,
    links: &mut Links,
    input: usize,
    id: u64,
    (begin, end): (u64, u64),
    value: f32,
) {
    let mbuf = device.tensor(id, DataType::FLOAT, &[1], &[value]);
    device.worker.of(&mbuf).update_msg_info(|info| {
        (info.start_time, info.end_time) = (begin, end);
    });
    device.feed_mbuf(links, input, mbuf);
}

fn feed(device: &mut Device, links: &mut Links, input: usize, id: u64, time: u64, value: f32) {
    feed_of(device, links, input, id, (time, time), value);
}

fn assert_sum(device: &mut Device, links: &mut Links, id: u64, first: f32, second: f32) {
    device.fetch(links, 0).assert_data(id, &[first + second]);
    device.fetch(links, 1).assert_data(id, &[first * 2.0]);
}

fn assert_answered(device: &mut Device, links: &mut Links, id: u64, code: Code) {
    for output in 0..2 {
        device.fetch(links, output).assert_answer(id, code);
    }
}

fn late(device: &Device) -> u64 {
    device.ctl(2).late.load(Ordering::Relaxed)
}

#[test]
fn near_ones_are_a_set_of_the_first_inputs_id_and_old_ones_leave() {
    let (mut device, mut links) = device(&[], 0);
    device.start();
    // 10 and 16 are too far apart: the first input's leaves with a code. Its next one is near.
    feed(&mut device, &mut links, 1, 1, 16, 100.0);
    feed(&mut device, &mut links, 0, 1, 10, 1.0);
    assert_answered(&mut device, &mut links, 1, APART);
    feed(&mut device, &mut links, 0, 2, 21, 2.0);
    assert_sum(&mut device, &mut links, 2, 2.0, 100.0);
    // Those of the second input that are too old are dropped and counted.
    for (id, time) in [(2, 22), (3, 23), (4, 30)] {
        feed(&mut device, &mut links, 1, id, time, 200.0 + time as f32);
    }
    feed(&mut device, &mut links, 0, 3, 35, 3.0);
    assert_sum(&mut device, &mut links, 3, 3.0, 230.0);
    assert_eq!(late(&device), 2);
    device.until_said("older than what the other inputs have");
    device.finalize();
}

#[test]
fn offsets_are_taken_off_and_a_message_without_a_time_is_none() {
    let (mut device, mut links) = device(&[0, 1000], 0);
    device.start();
    feed(&mut device, &mut links, 0, 1, 50, 1.0);
    feed(&mut device, &mut links, 1, 1, 1055, 2.0);
    assert_sum(&mut device, &mut links, 1, 1.0, 2.0);
    // Begin and end differ; before its offset.
    feed_of(&mut device, &mut links, 1, 2, (1060, 1061), 3.0);
    feed(&mut device, &mut links, 1, 3, 999, 4.0);
    feed(&mut device, &mut links, 1, 4, 1060, 5.0);
    feed_of(&mut device, &mut links, 0, 2, (60, 61), 6.0);
    assert_answered(&mut device, &mut links, 2, TIMELESS);
    feed(&mut device, &mut links, 0, 3, 60, 7.0);
    assert_sum(&mut device, &mut links, 3, 7.0, 5.0);
    assert_eq!(late(&device), 2);
    device.until_said("input 1: dropped a message without a time");
    // A code of its own goes on though it has no time.
    feed(&mut device, &mut links, 1, 5, 1070, 8.0);
    device.feed_code(&mut links, 0, 4, Code(9999));
    feed_of(&mut device, &mut links, 0, 5, (1, 2), 9.0);
    feed(&mut device, &mut links, 0, 6, 70, 9.0);
    // 0 is a time of the first input, so the message is the oldest, with its code.
    assert_answered(&mut device, &mut links, 4, Code(9999));
    assert_answered(&mut device, &mut links, 5, TIMELESS);
    assert_sum(&mut device, &mut links, 6, 9.0, 8.0);
    device.finalize();
}

#[test]
fn what_finds_nothing_near_in_time_is_answered_and_the_others_stay() {
    let (mut device, mut links) = device(&[], 50);
    device.start();
    feed(&mut device, &mut links, 0, 1, 10, 1.0);
    assert_answered(&mut device, &mut links, 1, APART);
    device.until_said("1 of its 2 inputs did not come in time");
    // The second input's message waits as long as it takes.
    feed(&mut device, &mut links, 1, 1, 30, 2.0);
    feed(&mut device, &mut links, 0, 2, 24, 3.0);
    assert_answered(&mut device, &mut links, 2, APART);
    feed(&mut device, &mut links, 0, 3, 31, 4.0);
    assert_sum(&mut device, &mut links, 3, 4.0, 2.0);
    device.finalize();
}

#[test]
fn a_code_and_an_end_of_any_input_reach_the_outputs_of_the_set() {
    let (mut device, mut links) = device(&[], 0);
    device.start();
    let mbuf = device.tensor(7, DataType::FLOAT, &[1], &[1.0]);
    device.worker.of(&mbuf).set_eos(true);
    device.feed_mbuf(&mut links, 1, mbuf);
    feed(&mut device, &mut links, 0, 1, 0, 1.0);
    for output in 0..2 {
        let got = device.fetch(&mut links, output);
        assert!(got.ends_sequence, "{got:?}");
        assert_eq!((got.id(), got.code()), (1, Code::SUCCESS));
    }
    device.feed_code(&mut links, 1, 8, Code(9999));
    feed(&mut device, &mut links, 0, 2, 3, 1.0);
    assert_answered(&mut device, &mut links, 2, Code(9999));
    device.finalize();
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let mut device = Device::new();
    let links = device.link(2, 2, 2);
    let path = device.model(&models::sum(1));
    device.start();
    let by_id = InputAlignAttrs { align_max_cache_num: 4, align_timeout: -1, ..Default::default() };
    let cases = [
        (vec![1], 0, None, "1 offsets for 2 inputs"),
        (vec![], 600_001, None, "timeout_ms: found 600001"),
        (vec![], 0, Some(by_id), "aligned by one of them"),
    ];
    for (offsets, timeout_ms, by_id, text) in cases {
        let mut request = links.request(2, &path);
        request.input_align_time = Some(InputAlignTime { interval: 5, offsets, timeout_ms });
        request.input_align_attrs = by_id;
        let response = device.load(vec![request]);
        assert!(response.error_message.contains(text), "{response:?}");
    }
    device.finalize();
}

/// Kills between two arbitrary instructions: every id ends exactly once on each output.
#[test]
fn killed_over_and_over_while_it_aligns_by_time_every_id_ends_once() {
    const BATCH: u64 = 7;
    const KILLS: u64 = 40;
    let (mut device, mut links) = device(&[], 0);
    device.start();
    let (mut died, mut apart) = (0, 0);
    for kill in 0..KILLS {
        let first = kill * 100 + 1;
        for n in 0..BATCH {
            // Each input has its own pace: some find nothing near.
            feed(&mut device, &mut links, 0, first + n, first + n * 8, 1.0);
            feed(&mut device, &mut links, 1, first + n, first + n * (3 + kill % 9), 2.0);
        }
        // Nothing is near these two but themselves.
        feed(&mut device, &mut links, 0, first + BATCH, first + 90, 1.0);
        feed(&mut device, &mut links, 1, first + BATCH, first + 90, 2.0);
        for _ in 0..kill * 997 % 6000 {
            core::hint::spin_loop();
        }
        device.kill_and_restart();
        for output in 0..2 {
            for id in first..=first + BATCH {
                let got = device.fetch(&mut links, output);
                assert_eq!(
                    got.id(),
                    id,
                    "kill {kill}: in the first input's order\n{}",
                    device.logs()
                );
                match got.code() {
                    Code::SUCCESS => {}
                    Code::EXECUTOR_DIED => died += 1,
                    APART => apart += 1,
                    other => panic!("kill {kill}: id {id} ended with {other}"),
                }
            }
            assert!(device.is_silent(&mut links, output), "kill {kill}\n{}", device.logs());
        }
    }
    assert!(apart > 0, "some have nothing near");
    device.finalize();
    println!("{KILLS} kills, {died} answers for the dead, {apart} that nothing was near");
}
