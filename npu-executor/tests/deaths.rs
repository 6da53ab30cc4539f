//! The process dies at different places: what the successor adopts, answers, and runs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Device, models};
use executor_core::abi::DataType;
use executor_core::error::Code;
use executor_core::primitive::Ordering;

#[test]
fn killed_inside_a_run_the_id_is_answered_and_the_rest_goes_on() {
    let mut device = Device::new();
    let mut slow = device.with(2, &models::slow(3000));
    let mut idle = device.link(3, 2, 2);
    let path = device.model(&models::sum(1));
    device.preload(idle.request(3, &path));
    device.start();
    let mbuf = device.tensor(1, DataType::FLOAT, &[1, 1, 1], &[1.0]);
    device.feed_mbuf(&mut slow, 0, mbuf);
    // Half a set waits in the other model.
    device.feed(&mut idle, 0, 1, &[1.0]);
    device.until("half a set", 3, |_| idle.inputs[0].is_empty());
    device.until_inside(2, 1);
    assert_eq!(device.kill_and_restart(), 2, "one input of each");
    device.fetch(&mut slow, 0).assert_answer(1, Code::EXECUTOR_DIED);
    device.feed(&mut idle, 1, 1, &[2.0]);
    device.fetch(&mut idle, 0).assert_data(1, &[3.0]);
    device.fetch(&mut idle, 1).assert_data(1, &[2.0]);
    device.finalize();
}

#[test]
fn redelivered_when_the_node_opted_in_until_the_poison_limit() {
    let mut device = Device::new();
    let mut slow = device.link(2, 1, 1);
    let path = device.model(&models::slow(3000));
    let mut request = slow.request(1, &path);
    let options = request.node_options.as_mut().unwrap();
    (options.redeliver, options.poison_limit) = (true, 1);
    device.preload(request);
    device.start();
    let mbuf = device.tensor(1, DataType::FLOAT, &[1, 1, 1], &[1.0]);
    device.feed_mbuf(&mut slow, 0, mbuf);
    device.until_inside(2, 1);
    device.kill_and_restart();
    device.until("second try", 2, |ctl| {
        ctl.attempts.load(Ordering::Acquire) == 2 && ctl.state.load(Ordering::Acquire) == 4
    });
    device.kill_and_restart();
    device.fetch(&mut slow, 0).assert_answer(1, Code::POISON);
    device.finalize();
}

#[test]
fn a_run_under_way_ends_before_the_process_does() {
    let mut device = Device::new();
    let mut slow = device.with(2, &models::slow(20));
    device.start();
    let mbuf = device.tensor(1, DataType::FLOAT, &[1, 1, 1], &[2.5]);
    device.feed_mbuf(&mut slow, 0, mbuf);
    device.fetch(&mut slow, 0).assert_data(1, &[2.5]);
    let mbuf = device.tensor(2, DataType::FLOAT, &[1, 1, 1], &[3.5]);
    device.feed_mbuf(&mut slow, 0, mbuf);
    device.until("taken", 2, |ctl| ctl.set_delivered.load(Ordering::Acquire) == 2);
    device.finalize_keeping();
    device.fetch(&mut slow, 0).assert_data(2, &[3.5]);
}

/// Kills between two arbitrary instructions: every id of both models ends exactly once.
#[test]
fn killed_over_and_over_every_id_ends_once() {
    const BATCH: u64 = 8;
    const KILLS: u64 = 40;
    let mut device = Device::new();
    let mut all = [device.with(2, &models::plus(&[1.0])), device.with(4, &models::plus(&[2.0]))];
    device.start();
    let mut died = 0;
    for kill in 0..KILLS {
        let ids = kill * BATCH + 1..=(kill + 1) * BATCH;
        for id in ids.clone() {
            for links in &mut all {
                device.feed(links, 0, id, &[3.0]);
            }
        }
        // The delay only varies the place of the kill.
        for _ in 0..kill * 997 % 6000 {
            core::hint::spin_loop();
        }
        device.kill_and_restart();
        for links in &mut all {
            for id in ids.clone() {
                let got = device.fetch(links, 0);
                assert_eq!(got.id(), id, "kill {kill}\n{}", device.logs());
                died += u32::from(got.code() == Code::EXECUTOR_DIED);
                assert!(matches!(got.code(), Code::SUCCESS | Code::EXECUTOR_DIED), "{got:?}");
            }
            assert!(device.is_silent(links, 0), "kill {kill}\n{}", device.logs());
        }
    }
    device.finalize();
    println!("{KILLS} kills, {died} answers for the dead");
}
