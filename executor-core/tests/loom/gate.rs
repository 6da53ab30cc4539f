//! The gate: no schedule in which more compute than there are cores, a core is lost, or somebody
//! waits for ever. Waiting is a futex; a place that is rung too early looks again.

use crate::support::{Futex, check, explore_to, full, spawn};
use executor_core::gate::{Gate, Level, Line};
use executor_core::primitive::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};

/// A device with places, and what is computed.
struct Device {
    gate: Gate,
    line: Mutex<Line>,
    sequences: [AtomicU32; 3],
    futexes: [Futex; 3],
    /// Counts what was computed, without an atomic step: with one core everybody sees what those
    /// before it have done.
    data: AtomicU32,
    inside: AtomicU32,
    cores: u32,
}

impl Device {
    fn new(cores: u32) -> Arc<Device> {
        Arc::new(Device {
            gate: Gate::new(cores),
            line: Mutex::new(Line::default()),
            sequences: Default::default(),
            futexes: Default::default(),
            data: AtomicU32::default(),
            inside: AtomicU32::default(),
            cores,
        })
    }

    fn ring(&self, place: u8) {
        self.sequences[usize::from(place)].fetch_add(1, Ordering::AcqRel);
        self.futexes[usize::from(place)].wake();
    }

    /// True: in. False: stands in the line.
    fn enter(&self, place: u8, level: Level) -> bool {
        self.gate.try_enter(1) || self.gate.enter(&mut self.line.lock().unwrap(), place, level)
    }

    fn wait(&self, place: u8) {
        let index = usize::from(place);
        loop {
            let seen = self.sequences[index].load(Ordering::Acquire);
            if self.gate.take(place) {
                return;
            }
            self.futexes[index].wait(&self.sequences[index], seen);
        }
    }

    fn compute(&self) {
        let before = self.inside.fetch_add(1, Ordering::Relaxed);
        assert!(before < self.cores, "{before} are inside of {}", self.cores);
        let data = self.data.load(Ordering::Relaxed);
        self.data.store(data + 1, Ordering::Relaxed);
        self.inside.fetch_sub(1, Ordering::Relaxed);
    }

    fn leave(&self) {
        if !self.gate.try_leave(1) {
            let handed = self.gate.leave(&mut self.line.lock().unwrap());
            if let Some(place) = handed {
                self.ring(place);
            }
        }
    }

    fn run(&self, place: u8, level: Level) {
        if !self.enter(place, level) {
            self.wait(place);
        }
        self.compute();
        self.leave();
    }

    /// As `run`, but gives up at once when it would wait.
    fn run_or_withdraw(&self, place: u8) {
        if self.enter(place, Level::LOWEST)
            || self.gate.withdraw(&mut self.line.lock().unwrap(), place)
        {
            self.compute();
            self.leave();
        }
    }

    /// Every core is free, nobody waits, and one core has computed this often.
    fn at_rest(&self, computed: impl Fn(u32) -> bool) {
        let data = self.data.load(Ordering::Relaxed);
        assert!(self.cores != 1 || computed(data), "computed {data} times");
        assert!(self.gate.try_enter(self.cores), "a core is lost");
        assert!(!self.gate.try_enter(1), "a core was made");
        assert_eq!(self.gate.leave(&mut self.line.lock().unwrap()), None, "somebody waits");
    }
}

#[test]
fn one_core_is_used_by_one_after_the_other() {
    check("gate: one core", || {
        let device = Device::new(1);
        let threads = [0, 1].map(|place| {
            let device = device.clone();
            spawn(move || device.run(place, Level::LOWEST))
        });
        device.run(2, Level::of(0, 0).unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        device.at_rest(|times| times == 3);
    });
}

#[test]
fn two_cores_are_used_by_two() {
    let model = || {
        let device = Device::new(2);
        let threads = [0, 1].map(|place| {
            let device = device.clone();
            spawn(move || device.run(place, Level::LOWEST))
        });
        device.run(2, Level::LOWEST);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        device.at_rest(|times| times == 3);
    };
    let bound = if full() { 2 } else { 1 };
    println!("model gate: two cores: {} schedules (bound {bound})", explore_to(bound, model));
}

#[test]
fn who_gives_up_while_a_core_is_given_back_loses_none() {
    check("gate: withdraw", || {
        let device = Device::new(1);
        let other = device.clone();
        let waiter = spawn(move || other.run_or_withdraw(0));
        let other = device.clone();
        let urgent = spawn(move || other.run(1, Level::of(0, 0).unwrap()));
        device.run(2, Level::LOWEST);
        waiter.join().unwrap();
        urgent.join().unwrap();
        device.at_rest(|times| times == 2 || times == 3);
    });
}

#[test]
fn a_core_given_back_goes_to_the_most_urgent_that_stays() {
    check("gate: levels", || {
        let device = Device::new(1);
        assert!(device.enter(2, Level::LOWEST));
        assert!(!device.enter(0, Level::LOWEST));
        assert!(!device.enter(1, Level::of(0, 1).unwrap()));
        let other = device.clone();
        let holder = spawn(move || {
            other.compute();
            other.leave();
        });
        // The most urgent gives up or was handed the core; in both cases the other one is next.
        if device.gate.withdraw(&mut device.line.lock().unwrap(), 1) {
            assert!(!device.gate.is_handed(0));
            device.compute();
            device.leave();
        }
        device.wait(0);
        device.compute();
        device.leave();
        holder.join().unwrap();
        device.at_rest(|times| times == 2 || times == 3);
    });
}
