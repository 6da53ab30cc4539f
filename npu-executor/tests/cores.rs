//! Models of one device that share fewer cores than they are: who computes next, and that nobody
//! who waits for a core is lost.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Device, Links, models};
use executor_core::abi::DataType;
use executor_core::abi::control::WAITERS;
use executor_core::error::Code;
use executor_core::owner::WaiterId;
use executor_core::primitive::Ordering;
use executor_rt::proto::{
    ClearModelRequest, ExecutorRequest, LoadModelRequest, UnloadModelRequest,
};
use sys::pidfd::Event;
use sys::signal::Signal;

/// Keeps a core for seconds.
const LONG: usize = 3000;

fn urgent(mut request: LoadModelRequest, process: &str, event: &str) -> LoadModelRequest {
    for (name, value) in [("_eschedProcessPriority", process), ("_eschedEventPriority", event)] {
        request.attrs.insert(name.to_owned(), value.to_owned());
    }
    request
}

/// A device with so many cores whose model of slot 2 takes long and has root 9.
fn device(cores: &'static str, others: usize, rounds: usize) -> (Device, Links) {
    let mut device = Device::with_places(others + 1);
    device.cores = Some(cores);
    let long = device.link(2, 1, 1);
    let path = device.model(&models::slow(rounds));
    let mut request = long.request(2, &path);
    request.root_model_id = 9;
    device.preload(request);
    (device, long)
}

fn feed_long(device: &mut Device, long: &mut Links, id: u64) {
    let mbuf = device.tensor(id, DataType::FLOAT, &[1, 1, 1], &[1.0]);
    device.feed_mbuf(long, 0, mbuf);
}

/// Looks until the model of `slot` has collected set `set` and sleeps: it stands in the line.
fn until_waiting(device: &Device, slot: u32, set: u64) {
    let waiter = device.host.group.memory.waiter(WaiterId(slot * WAITERS)).unwrap();
    device.until("waits for a core", slot, |ctl| {
        ctl.set_taken.load(Ordering::Acquire) == set && waiter.parked.load(Ordering::Acquire) != 0
    });
    let ctl = device.ctl(slot);
    assert_eq!(ctl.set_delivered.load(Ordering::Acquire), set - 1, "it has no core");
}

/// Whether the model of slot 2 is inside its first set: what was seen before was seen while it held
/// the core.
fn holds_the_core(device: &Device) -> bool {
    device.ctl(2).set_delivered.load(Ordering::Acquire) == 1
        && device.ctl(2).set_done.load(Ordering::Acquire) == 0
}

fn has_sent(device: &Device, slot: u32, set: u64) -> bool {
    let ctl = device.ctl(slot);
    let committed = ctl.committed.load(Ordering::Acquire) != 0;
    let delivered = ctl.set_delivered.load(Ordering::Acquire);
    delivered > set || (delivered == set && committed)
}

#[test]
fn the_most_urgent_model_overtakes_sets_that_waited_before_it() {
    let (mut device, mut long) = device("1", 3, LONG);
    let mut all: Vec<Links> = Vec::new();
    for (slot, process, event) in [(3, "2", "2"), (4, "", ""), (5, "0", "1")] {
        let links = device.link(slot, 1, 1);
        let path = device.model(&models::plus(&[1.0]));
        let request = links.request(slot, &path);
        device.preload(if process.is_empty() { request } else { urgent(request, process, event) });
        all.push(links);
    }
    device.start();
    feed_long(&mut device, &mut long, 1);
    device.until_inside(2, 1);
    // In this order they come, each with a second set behind the one that waits.
    for (links, slot) in all.iter_mut().zip(3..) {
        for id in 1..=2 {
            device.feed(links, 0, id, &[1.0]);
        }
        until_waiting(&device, slot, 1);
    }
    assert!(holds_the_core(&device), "the long run is over too early to see anything");
    // Whoever is next computes and sends before the core goes on, so what was sent is the order.
    device.fetch(&mut all[1], 0).assert_data(1, &[2.0]);
    assert!(has_sent(&device, 3, 1), "of two of one level the first that came is first");
    assert!(has_sent(&device, 5, 1), "the most urgent one, which came last");
    device.fetch(&mut all[0], 0).assert_data(1, &[2.0]);
    assert!(has_sent(&device, 5, 1));
    for (links, from) in all.iter_mut().zip([2, 2, 1]) {
        for id in from..=2 {
            device.fetch(links, 0).assert_data(id, &[2.0]);
        }
    }
    device.fetch(&mut long, 0).assert_data(1, &[1.0]);
    device.finalize();
}

#[test]
fn more_models_than_cores_all_go_on() {
    for cores in ["1", "2"] {
        let mut device = Device::with_places(6);
        device.cores = Some(cores);
        let mut all: Vec<Links> = Vec::new();
        for slot in 2..8 {
            let links = device.link(slot, 1, 1);
            let path = device.model(&models::plus(&[1.0]));
            let request = links.request(slot, &path);
            device.preload(urgent(request, ["0", "1", "2"][slot as usize % 3], "1"));
            all.push(links);
        }
        device.start();
        for round in 0..40 {
            let ids = round * 10 + 1..=round * 10 + 10;
            for id in ids.clone() {
                all.iter_mut().for_each(|links| device.feed(links, 0, id, &[3.0]));
            }
            for links in &mut all {
                for id in ids.clone() {
                    device.fetch(links, 0).assert_data(id, &[4.0]);
                }
            }
        }
        device.finalize();
    }
}

#[test]
fn who_waits_for_room_or_an_mbuf_holds_no_core() {
    let (mut device, mut long) = device("1", 2, 1);
    let mut full = device.with(3, &models::plus(&[1.0]));
    let mut other = device.with(4, &models::plus(&[2.0]));
    device.start();
    // Sixteen results fill its queue; the next one waits for room.
    for id in 1..=17 {
        device.feed(&mut full, 0, id, &[1.0]);
    }
    device.until("waits for room", 3, |ctl| ctl.state.load(Ordering::Acquire) == 5);
    device.feed(&mut other, 0, 1, &[1.0]);
    device.fetch(&mut other, 0).assert_data(1, &[3.0]);
    feed_long(&mut device, &mut long, 1);
    device.fetch(&mut long, 0).assert_data(1, &[1.0]);
    for id in 1..=17 {
        device.fetch(&mut full, 0).assert_data(id, &[2.0]);
    }
    device.finalize();
}

fn order(device: &mut Device, clear: Option<i32>) {
    let request = match clear {
        Some(clear_msg_type) => ExecutorRequest {
            clear_model_message: Some(ClearModelRequest { model_id: 7, clear_msg_type }),
            ..Default::default()
        },
        None => ExecutorRequest {
            unload_model_message: Some(UnloadModelRequest { model_id: 7 }),
            ..Default::default()
        },
    };
    let response = device.ask(&request);
    assert_eq!(response.error_code, 0, "{response:?}");
}

#[test]
fn orders_reach_a_model_that_waits_for_a_core() {
    let (mut device, mut long) = device("1", 2, LONG);
    let mut links = device.link(3, 1, 1);
    let path = device.model(&models::plus(&[1.0]));
    device.preload(links.request(3, &path));
    let mut other = device.link(4, 1, 1);
    let mut request = other.request(4, &path);
    request.root_model_id = 9;
    device.preload(request);
    device.start();
    feed_long(&mut device, &mut long, 1);
    device.until_inside(2, 1);
    device.feed(&mut links, 0, 1, &[1.0]);
    until_waiting(&device, 3, 1);
    order(&mut device, Some(1));
    order(&mut device, Some(2));
    device.feed(&mut links, 0, 2, &[1.0]);
    until_waiting(&device, 3, 1);
    order(&mut device, None);
    device.load_well(vec![links.request(3, &path)]);
    device.feed(&mut links, 0, 3, &[1.0]);
    until_waiting(&device, 3, 1);
    device.feed(&mut other, 0, 1, &[2.0]);
    until_waiting(&device, 4, 1);
    assert!(holds_the_core(&device), "all that happened while somebody else computed");
    device.fetch(&mut links, 0).assert_data(3, &[2.0]);
    device.fetch(&mut other, 0).assert_data(1, &[3.0]);
    device.fetch(&mut long, 0).assert_data(1, &[1.0]);
    assert!(device.is_silent(&mut links, 0), "what was cleared and unloaded is gone");
    device.finalize();
}

#[test]
fn a_set_that_waits_for_a_core_outlives_the_process() {
    let (mut device, mut long) = device("1", 2, LONG);
    let mut links = device.link(3, 2, 2);
    let path = device.model(&models::sum(1));
    device.preload(links.request(3, &path));
    device.start();
    feed_long(&mut device, &mut long, 1);
    device.until_inside(2, 1);
    device.feed(&mut links, 0, 1, &[1.0]);
    device.feed(&mut links, 1, 1, &[2.0]);
    until_waiting(&device, 3, 1);
    assert_eq!(device.kill_and_restart(), 3, "its two inputs, and that of the one inside");
    device.fetch(&mut links, 0).assert_data(1, &[3.0]);
    device.fetch(&mut links, 1).assert_data(1, &[2.0]);
    device.fetch(&mut long, 0).assert_answer(1, Code::EXECUTOR_DIED);
    device.finalize();
}

#[test]
fn sigterm_ends_a_process_with_a_model_that_waits_for_a_core() {
    let (mut device, mut long) = device("1", 1, 200);
    let mut links = device.with(3, &models::plus(&[1.0]));
    device.start();
    feed_long(&mut device, &mut long, 1);
    device.until_inside(2, 1);
    device.feed(&mut links, 0, 1, &[1.0]);
    device.until("collected", 3, |ctl| ctl.set_taken.load(Ordering::Acquire) == 1);
    device.signal(Signal::TERM);
    assert_eq!(device.end(), Event::Exited(0), "{}", device.logs());
}

#[test]
fn priorities_and_cores_that_are_none_are_refused() {
    for (process, event, text) in [
        ("3", "0", "_eschedProcessPriority: found \"3\", expected 0, 1 or 2"),
        ("0", "-1", "_eschedEventPriority: found \"-1\""),
        ("", "0", "_eschedProcessPriority: found \"\""),
    ] {
        let mut device = Device::new();
        let links = device.link(2, 1, 1);
        let path = device.model(&models::plus(&[1.0]));
        device.preload(urgent(links.request(2, &path), process, event));
        device.spawn();
        let response = device.response();
        assert_eq!(Code(response.error_code), Code::PARAM_INVALID, "{response:?}");
        assert!(response.error_message.contains(text), "{response:?}");
        assert_eq!(device.end(), Event::Exited(1));
    }
    for cores in ["0", "65", "", "two"] {
        let mut device = Device::new();
        device.cores = Some(cores);
        device.spawn();
        assert_eq!(device.end(), Event::Exited(1));
        let text = format!("--cores={cores}: expected 1 to 64");
        assert!(device.logs().contains(&text), "{}", device.logs());
    }
}
