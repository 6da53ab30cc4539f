//! Models whose inputs are put together by id: order, time, limit, and what outlives a death.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Device, Links, models};
use executor_core::error::Code;
use executor_core::owner::Owner;
use executor_core::primitive::Ordering;
use executor_rt::proto::InputAlignAttrs;

const CODE: Code = Code::AICPU_DISCARD_DATA;

/// A model of two inputs and two outputs: the sum, and twice the first.
fn device(max: u32, timeout: i32, drop: bool) -> (Device, Links) {
    let mut device = Device::new();
    let links = device.link(2, 2, 2);
    let path = device.model(&models::sum(1));
    let mut request = links.request(2, &path);
    request.input_align_attrs = Some(InputAlignAttrs {
        align_max_cache_num: max,
        align_timeout: timeout,
        drop_when_not_align: drop,
    });
    device.preload(request);
    (device, links)
}

fn assert_sum(device: &mut Device, links: &mut Links, id: u64, first: f32, second: f32) {
    device.fetch(links, 0).assert_data(id, &[first + second]);
    device.fetch(links, 1).assert_data(id, &[first * 2.0]);
}

fn assert_answered(device: &mut Device, links: &mut Links, id: u64) {
    for output in 0..2 {
        device.fetch(links, output).assert_answer(id, CODE);
    }
}

/// Looks until so many messages are in the model's hands.
fn until_cached(device: &Device, count: usize) {
    let group = device.host.group;
    device.until("cached", 2, |_| {
        let held = executor_core::inspect::held(&group);
        let of_model = |owner| matches!(owner, Owner::Worker { slot: 2, .. });
        held.filter(|mbuf| of_model(mbuf.owner)).count() == count
    });
}

#[test]
fn messages_in_another_order_are_paired_by_id() {
    let (mut device, mut links) = device(8, -1, false);
    device.start();
    for round in 0..50_u16 {
        let id = |n: u16| u64::from(round * 4 + n);
        for (a, b) in [(0, 3), (1, 2), (2, 1), (3, 0)] {
            device.feed(&mut links, 0, id(a), &[f32::from(a)]);
            device.feed(&mut links, 1, id(b), &[10.0 * f32::from(b)]);
        }
        // 2 and 1 meet first, then 3 and 0: each as soon as both are there.
        let mut got: Vec<u64> = Vec::new();
        for _ in 0..4 {
            let (sum, twice) = (device.fetch(&mut links, 0), device.fetch(&mut links, 1));
            let n = u16::try_from(sum.id() - id(0)).unwrap();
            sum.assert_data(id(n), &[11.0 * f32::from(n)]);
            twice.assert_data(id(n), &[2.0 * f32::from(n)]);
            got.push(sum.id() - id(0));
        }
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2, 3]);
    }
    assert_eq!(device.ctl(2).coded.load(Ordering::Relaxed), 0);
    device.finalize();
}

#[test]
fn what_waits_too_long_is_answered_and_the_rest_goes_on() {
    for drop in [true, false] {
        let (mut device, mut links) = device(8, 50, drop);
        device.start();
        device.feed(&mut links, 0, 1, &[1.0]);
        assert_answered(&mut device, &mut links, 1);
        // Its other half comes late: it is dropped and counted, since its id was answered.
        device.feed(&mut links, 1, 1, &[1.0]);
        device.feed(&mut links, 1, 2, &[5.0]);
        device.feed(&mut links, 0, 2, &[3.0]);
        assert_sum(&mut device, &mut links, 2, 3.0, 5.0);
        let (coded, late) = (&device.ctl(2).coded, &device.ctl(2).late);
        let counts = [coded, late].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [2, 1]);
        assert!(device.logs().contains("1 of its 2 inputs did not come in time"));
        device.finalize();
    }
}

#[test]
fn beyond_the_limit_the_lowest_id_is_answered() {
    for drop in [true, false] {
        let (mut device, mut links) = device(2, -1, drop);
        device.start();
        for (a, b) in [(1, 2), (3, 4)] {
            device.feed(&mut links, 0, a, &[1.0]);
            device.feed(&mut links, 1, b, &[2.0]);
        }
        // Three keys are one too many: the lowest goes, two wait after each answer.
        assert_answered(&mut device, &mut links, 1);
        device.feed(&mut links, 0, 4, &[6.0]);
        assert_answered(&mut device, &mut links, 2);
        assert_sum(&mut device, &mut links, 4, 6.0, 2.0);
        assert!(device.logs().contains("did not come while too many other ids wait"));
        device.feed(&mut links, 1, 3, &[5.0]);
        assert_sum(&mut device, &mut links, 3, 1.0, 5.0);
        device.finalize();
    }
}

#[test]
fn a_code_or_no_data_of_one_input_goes_on_with_its_id() {
    let (mut device, mut links) = device(4, -1, false);
    device.start();
    device.feed(&mut links, 0, 1, &[1.0]);
    device.feed_code(&mut links, 1, 2, Code(9999));
    device.feed_code(&mut links, 0, 2, Code::SUCCESS);
    device.feed(&mut links, 1, 1, &[2.0]);
    for output in 0..2 {
        device.fetch(&mut links, output).assert_answer(2, Code(9999));
    }
    assert_sum(&mut device, &mut links, 1, 1.0, 2.0);
    device.finalize();
}

#[test]
fn what_is_cached_outlives_the_process() {
    let (mut device, mut links) = device(8, -1, false);
    device.start();
    // Sets go on while these wait, so the cache is older than many sets.
    device.feed(&mut links, 0, 100, &[1.0]);
    device.feed(&mut links, 1, 101, &[2.0]);
    for id in 1..=5 {
        device.feed(&mut links, 0, id, &[1.0]);
        device.feed(&mut links, 1, id, &[4.0]);
        assert_sum(&mut device, &mut links, id, 1.0, 4.0);
    }
    // Two of one id and input keep their order.
    device.feed(&mut links, 0, 102, &[7.0]);
    device.feed(&mut links, 1, 103, &[9.0]);
    device.feed(&mut links, 0, 102, &[8.0]);
    until_cached(&device, 5);
    for _ in 0..3 {
        assert_eq!(device.kill_and_restart(), 5);
        until_cached(&device, 5);
    }
    for (input, id, fed, kept) in [
        (1, 102, 20.0, 7.0),
        (1, 102, 30.0, 8.0),
        (1, 100, 3.0, 1.0),
        (0, 101, 4.0, 2.0),
        (0, 103, 1.0, 9.0),
    ] {
        device.feed(&mut links, input, id, &[fed]);
        let (first, second) = if input == 0 { (fed, kept) } else { (kept, fed) };
        assert_sum(&mut device, &mut links, id, first, second);
    }
    device.finalize();
}

#[test]
fn the_time_begins_anew_in_a_successor() {
    let (mut device, mut links) = device(8, 200, true);
    device.start();
    device.feed(&mut links, 1, 1, &[1.0]);
    device.feed(&mut links, 0, 2, &[1.0]);
    device.kill_and_restart();
    // Whichever instant it died at: each id is answered once.
    let mut ids = [device.fetch(&mut links, 0).id(), device.fetch(&mut links, 0).id()];
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
    device.finalize_keeping();
}

/// Kills between two arbitrary instructions: every id ends exactly once on each output.
#[test]
fn killed_over_and_over_while_it_aligns_every_id_ends_once() {
    const BATCH: u64 = 8;
    const KILLS: u64 = 40;
    let (mut device, mut links) = device(16, -1, false);
    device.start();
    let mut died = 0;
    for kill in 0..KILLS {
        let first = kill * BATCH + 1;
        for n in 0..BATCH {
            // Each input has its own order.
            device.feed(&mut links, 0, first + n, &[1.0]);
            device.feed(&mut links, 1, first + (n * 3 + kill) % BATCH, &[2.0]);
        }
        for _ in 0..kill * 997 % 6000 {
            core::hint::spin_loop();
        }
        device.kill_and_restart();
        for output in 0..2 {
            let mut ids: Vec<u64> = Vec::new();
            for _ in 0..BATCH {
                let got = device.fetch(&mut links, output);
                assert!(matches!(got.code(), Code::SUCCESS | Code::EXECUTOR_DIED), "{got:?}");
                died += u32::from(got.code() == Code::EXECUTOR_DIED);
                ids.push(got.id());
            }
            ids.sort_unstable();
            assert_eq!(ids, (first..first + BATCH).collect::<Vec<_>>(), "{}", device.logs());
            assert!(device.is_silent(&mut links, output), "kill {kill}\n{}", device.logs());
        }
    }
    device.finalize();
    println!("{KILLS} kills, {died} answers for the dead");
}
