//! Sleeping and waking: no schedule in which a sleeper sleeps on. The futex is a mutex and a
//! condition variable over the sequence word, so a lost wake is a deadlock that loom reports.

use crate::kill::{exhaust_points, until_death};
use crate::support::{DEPTH, Futex, HOST, PEER, Side, VICTIM, check, group, queue, spawn};
use executor_core::group::Group;
use executor_core::owner::{SlotId, WaiterId};
use executor_core::pool::Head;
use executor_core::primitive::{AtomicU32, Ordering};
use executor_core::queue::QueueFlags;
use executor_core::sweep::{Inputs, Sweeper, suspect_words};
use executor_core::wake::{self, WakeSet};
use loom::sync::Arc;

/// One futex a slot (models have one waiter a slot).
#[derive(Clone, Default)]
struct Futexes(Arc<[Futex; 3]>);

impl Futexes {
    fn ring(&self, wakes: WakeSet) {
        for WaiterId(id) in wakes.iter() {
            self.0[id as usize].wake();
        }
    }

    /// The sleeper's protocol, as `executor-rt` runs it.
    fn sleep_until(
        &self,
        group: &Group<'static>,
        slot: SlotId,
        mut register: impl FnMut(),
        mut ready: impl FnMut() -> bool,
    ) {
        let waiter = group.memory.waiter(WaiterId(slot.0)).unwrap();
        loop {
            let parking = wake::begin_park(waiter);
            register();
            wake::recheck();
            if ready() {
                wake::end_park(waiter);
                return;
            }
            self.0[slot.0 as usize].wait(&waiter.sequence, parking.expected);
            wake::end_park(waiter);
        }
    }
}

#[test]
fn an_empty_queue_wakes_its_consumer() {
    check("wake: empty", || {
        let group = group([(0, 0), (2, 0), (0, 0)]);
        let id = queue(&group, PEER, &[VICTIM], QueueFlags::empty());
        let mut from = Side::new(&group, VICTIM, 1).produces(id);
        let mut to = Side::new(&group, PEER, 1).consumes(id);
        let futexes = Futexes::default();
        let bells = futexes.clone();
        let mbuf = from.message(1);
        let producer = spawn(move || {
            let wakes = from.producer.as_mut().unwrap().enqueue(&mut from.worker, mbuf).unwrap();
            bells.ring(wakes);
        });
        let consumer = to.consumer.as_mut().unwrap();
        futexes.sleep_until(&group, PEER, || {}, || consumer.has_message(&group.memory));
        assert_eq!(to.receive(), Ok(1));
        producer.join().unwrap();
    });
}

#[test]
fn a_full_queue_wakes_its_producer() {
    check("wake: full", || {
        let group = group([(0, 0), (3, 0), (0, 0)]);
        let id = queue(&group, PEER, &[VICTIM], QueueFlags::empty());
        let mut from = Side::new(&group, VICTIM, 1).produces(id);
        let mut to = Side::new(&group, PEER, 1).consumes(id);
        for id in 0..u64::from(DEPTH) {
            let mbuf = from.message(id);
            from.send(mbuf).unwrap();
        }
        let futexes = Futexes::default();
        let bells = futexes.clone();
        let consumer = spawn(move || {
            let (mbuf, wakes) = to.consumer.as_mut().unwrap().dequeue(&mut to.worker).unwrap();
            bells.ring(wakes);
            to.held.push(mbuf);
        });
        let producer = std::cell::RefCell::new(from.producer.as_mut().unwrap());
        futexes.sleep_until(
            &group,
            VICTIM,
            || producer.borrow().register_full_wait(),
            || producer.borrow_mut().has_room(),
        );
        consumer.join().unwrap();
    });
}

#[test]
fn an_empty_pool_wakes_its_waiter() {
    check("wake: pool", || {
        let group = group([(0, 0), (1, 0), (0, 1)]);
        let mut one = Side::new(&group, VICTIM, 1);
        let mut two = Side::new(&group, PEER, 1);
        let mbuf = one.message(1);
        let copy = two.worker.copy_ref(&mbuf).unwrap();
        two.held.push(copy);
        let _ = one.worker.free(mbuf);
        let futexes = Futexes::default();
        let bells = futexes.clone();
        let holder = spawn(move || {
            let mbuf = two.held.pop().unwrap();
            bells.ring(two.worker.free(mbuf));
        });
        let mut got = None;
        futexes.sleep_until(
            &group,
            VICTIM,
            || group.memory.register_pool_wait(VICTIM, 0),
            || {
                got = got.take().or_else(|| one.worker.alloc(1, Head::Zeroed).ok());
                got.is_some()
            },
        );
        holder.join().unwrap();
        assert!(got.is_some());
    });
}

/// Two producers, one ready bit: the consumer clears, then drains; it gets all and never sleeps on.
#[test]
fn the_ready_set_is_cleared_then_drained() {
    check("wake: ready set", || {
        let group = group([(0, 0), (1, 0), (1, 0)]);
        let id = queue(&group, HOST, &[VICTIM, PEER], QueueFlags::empty());
        let futexes = Futexes::default();
        let mut to = Side::new(&group, HOST, 1);
        let threads = [VICTIM, PEER].map(|slot| {
            let mut from = Side::new(&group, slot, 1).produces(id);
            let mbuf = from.message(u64::from(slot.0));
            let bells = futexes.clone();
            spawn(move || {
                let end = from.producer.as_mut().unwrap();
                bells.ring(end.enqueue(&mut from.worker, mbuf).unwrap());
            })
        });
        to = to.consumes(id);
        let waiter = group.memory.waiter(WaiterId(HOST.0)).unwrap();
        let mask = to.consumer.as_ref().unwrap().ready_mask();
        while to.received.len() < 2 {
            // The consumer looks at its queues only when their bit is set.
            futexes.sleep_until(&group, HOST, || {}, || wake::take_ready(waiter, mask) != 0);
            while to.receive().is_ok() {}
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(to.received.iter().sum::<u64>(), 3);
    });
}

/// A producer vanishes anywhere in an enqueue, also between clearing `parked` and the futex wake:
/// the sweep's wake-all gets the sleeper up (W3).
#[test]
fn a_waker_that_dies_loses_no_wake() {
    exhaust_points("wake", 2, dying_producer);
}

/// A consumer vanishes anywhere while it frees what somebody else waits for: the same.
#[test]
fn a_freer_that_dies_loses_no_wake() {
    exhaust_points("wake pool", 2, dying_freer);
}

fn dying_producer(nth: u32) -> Option<&'static str> {
    let group = group([(0, 0), (1, 0), (0, 0)]);
    let id = queue(&group, PEER, &[VICTIM], QueueFlags::empty());
    let mut from = Side::new(&group, VICTIM, 1).produces(id);
    let mut to = Side::new(&group, PEER, 1).consumes(id);
    let futexes = Futexes::default();
    let bells = futexes.clone();
    let swept = Arc::new(AtomicU32::default());
    let mbuf = from.message(1);
    let dying = spawn(move || {
        until_death(nth, || {
            let end = from.producer.as_mut().unwrap();
            bells.ring(end.enqueue(&mut from.worker, mbuf).unwrap());
        })
    });
    let over = swept.clone();
    let sleeper_bells = futexes.clone();
    let sleeper = spawn(move || {
        let consumer = to.consumer.as_mut().unwrap();
        let stop = || over.load(Ordering::Acquire) == 1;
        let ready = || consumer.has_message(&group.memory) || stop();
        sleeper_bells.sleep_until(&group, PEER, || {}, ready);
    });
    let died = dying.join().unwrap();
    sweep_and_wake_all(&group, &swept, &futexes);
    sleeper.join().unwrap();
    died
}

fn dying_freer(nth: u32) -> Option<&'static str> {
    let group = group([(0, 0), (0, 1), (1, 0)]);
    let mut owner = Side::new(&group, PEER, 1);
    let mut freer = Side::new(&group, VICTIM, 1);
    let mbuf = owner.message(1);
    let copy = freer.worker.copy_ref(&mbuf).unwrap();
    let _ = owner.worker.free(mbuf);
    let futexes = Futexes::default();
    let bells = futexes.clone();
    let swept = Arc::new(AtomicU32::default());
    let dying = spawn(move || until_death(nth, || bells.ring(freer.worker.free(copy))));
    let over = swept.clone();
    let sleeper_bells = futexes.clone();
    let sleeper = spawn(move || {
        let stop = || over.load(Ordering::Acquire) == 1;
        let mut got = None;
        let ready = || {
            got = got.take().or_else(|| owner.worker.alloc(1, Head::Zeroed).ok());
            got.is_some() || stop()
        };
        let register = || group.memory.register_pool_wait(PEER, 0);
        sleeper_bells.sleep_until(&group, PEER, register, ready);
    });
    let died = dying.join().unwrap();
    sweep_and_wake_all(&group, &swept, &futexes);
    sleeper.join().unwrap();
    died
}

/// What the supervisor does after the victim's end.
fn sweep_and_wake_all(group: &Group<'static>, swept: &AtomicU32, futexes: &Futexes) {
    let mut words = vec![0; suspect_words(group)];
    Sweeper::new(group, &mut words).sweep(VICTIM, Inputs::Free);
    swept.store(1, Ordering::Release);
    for (_, futex) in group.memory.wake_all().zip(futexes.0.iter()) {
        futex.wake();
    }
}
