//! Lives of a queue: creating, granting and destroying against everything else, and with a victim
//! that vanishes at every kill point of them.
//!
//! The oracle: no mbuf is stranded or freed twice, an index is free or active, a name is had by at
//! most one queue, and the index carries messages in its next life.

use crate::kill::{conserve, exhaust_points, until_death};
use crate::support::{
    HOST, PEER, Side, VICTIM, advance_by, assert_all_free, check, explore_to, full, group,
    group_of, join_last, named, queue, spawn,
};
use executor_core::error::{DequeueError, EnqueueError, QueueError};
use executor_core::group::Group;
use executor_core::owner::{QueueId, SlotId};
use executor_core::pool::Worker;
use executor_core::primitive::Ordering;
use executor_core::queue::{Consumer, QueueFlags, Rights};
use executor_core::sweep::{Inputs, Sweeper, Swept, suspect_words};

const FREE: u32 = 0;
const ACTIVE: u32 = 1;

fn state_of(group: &Group<'static>, index: usize) -> u32 {
    group.memory.queues[index].state.load(Ordering::Acquire)
}

/// Both may manage; `queued` messages of the producer are in the ring, before the wrap.
fn ends(from: SlotId, to: SlotId, queued: u32, flags: QueueFlags) -> (Group<'static>, Side, Side) {
    let mut parts = [(0, 0); 3];
    parts[from.0 as usize].0 = queued + 1;
    let group = group(parts);
    let id = queue(&group, to, &[from], flags);
    let host = Worker::new(&group, HOST, 0, 1).unwrap();
    for slot in [from, to] {
        group.memory.grant_queue(&host, id, slot, Rights::MANAGE).unwrap();
    }
    let mut producer = Side::new(&group, from, 1).produces(id);
    let mut consumer = Side::new(&group, to, 1).consumes(id);
    advance_by(3, &mut producer, &mut consumer);
    for id in 0..u64::from(queued) {
        let mbuf = producer.message(id);
        producer.send(mbuf).unwrap();
    }
    let mbuf = producer.message(9);
    producer.held.push(mbuf);
    (group, producer, consumer)
}

/// One enqueue; a message that was refused is held again.
fn send_one(side: &mut Side) {
    let mbuf = side.held.remove(0);
    if let Err((mbuf, error)) = side.send(mbuf) {
        assert!(
            matches!(error, EnqueueError::NotPermitted | EnqueueError::Busy | EnqueueError::Full),
            "{error}"
        );
        side.held.push(mbuf);
    }
}

fn destroy(side: &mut Side) -> Result<(), QueueError> {
    let memory = side.worker.memory;
    let end = side.consumer.take().unwrap();
    memory.destroy_queue(&mut side.worker, end).map(|_| ())
}

/// The index lives again: a message goes through it.
fn next_life(group: &Group<'static>, mut from: Side, mut to: Side) {
    let (producer, consumer) = (from.worker.slot(), to.worker.slot());
    let id = queue(group, consumer, &[producer], QueueFlags::empty());
    from = from.produces(id);
    to = to.consumes(id);
    assert_eq!(to.receive(), Err(DequeueError::Empty));
    for number in 1..=3 {
        let mbuf = from.message(number);
        from.send(mbuf).unwrap();
        assert_eq!(to.receive(), Ok(number));
        to.free_all();
    }
    assert_eq!(group.memory.queues[0].faults.load(Ordering::Relaxed), 0);
    assert_all_free(group);
}

#[test]
fn destroy_against_an_enqueue_strands_nothing() {
    for flags in [QueueFlags::empty(), QueueFlags::SHARED] {
        check("destroy and enqueue", move || {
            let (group, mut from, mut to) = ends(VICTIM, PEER, 1, flags);
            let other = spawn(move || {
                send_one(&mut from);
                from
            });
            destroy(&mut to).unwrap();
            let mut from = join_last(other);
            from.free_all();
            assert_all_free(&group);
            next_life(&group, from, to);
        });
    }
}

/// The producer that passed its check finds the index in its next life.
#[test]
fn destroy_and_create_against_an_enqueue() {
    check("destroy, create and enqueue", || {
        let (group, mut from, mut to) = ends(VICTIM, PEER, 0, QueueFlags::empty());
        let other = spawn(move || {
            send_one(&mut from);
            from
        });
        destroy(&mut to).unwrap();
        let id = queue(&group, PEER, &[VICTIM], QueueFlags::empty());
        to = to.consumes(id);
        assert_eq!(to.receive(), Err(DequeueError::Empty));
        let mut from = join_last(other);
        from.free_all();
        assert_all_free(&group);
        from = from.produces(id);
        let mbuf = from.message(1);
        from.send(mbuf).unwrap();
        assert_eq!(to.receive(), Ok(1));
        to.free_all();
        assert_all_free(&group);
    });
}

/// The overwriting producer drops the oldest while all are dropped.
#[test]
fn destroy_against_an_overwriting_enqueue() {
    check("destroy and overwrite", || {
        let (group, mut from, mut to) = ends(VICTIM, PEER, 2, QueueFlags::OVERWRITE);
        let other = spawn(move || {
            send_one(&mut from);
            from
        });
        let first = destroy(&mut to);
        let mut from = join_last(other);
        if first == Err(QueueError::Busy) {
            to.consumer = Some(Consumer::open(&to.worker, QueueId(0)).unwrap());
            destroy(&mut to).unwrap();
        } else {
            first.unwrap();
        }
        from.free_all();
        assert_all_free(&group);
        next_life(&group, from, to);
    });
}

#[test]
fn destroy_against_a_shared_dequeue() {
    check("destroy and dequeue", || {
        let (group, from, mut to) = ends(HOST, PEER, 1, QueueFlags::SHARED);
        let id = to.consumer.as_ref().unwrap().id();
        group.memory.grant_queue(&from.worker, id, VICTIM, Rights::READ).unwrap();
        let mut reader = Side::new(&group, VICTIM, 1).consumes(id);
        let other = spawn(move || {
            let got = reader.receive();
            assert!(!matches!(got, Err(DequeueError::Fault)));
            reader.free_all();
        });
        let first = destroy(&mut to);
        join_last(other);
        if first == Err(QueueError::Busy) {
            to = to.consumes(id);
            destroy(&mut to).unwrap();
        }
        let mut from = from;
        from.free_all();
        assert_all_free(&group);
        next_life(&group, from, to);
    });
}

/// A grant that passed its checks does not reach the next life of the index.
#[test]
fn destroy_and_create_against_a_grant() {
    check("destroy, create and grant", || {
        let (group, mut from, mut to) = ends(VICTIM, PEER, 0, QueueFlags::empty());
        from.free_all();
        let granted = group;
        let other = spawn(move || {
            granted.memory.grant_queue(&from.worker, QueueId(0), VICTIM, Rights::READ)
        });
        let first = destroy(&mut to);
        if first.is_ok() {
            let id = queue(&group, PEER, &[], QueueFlags::empty());
            let result = join_last(other);
            let rights = group.memory.queues[id.0 as usize].rights(VICTIM);
            assert!(rights.is_empty(), "{rights:?} after {result:?}");
        } else {
            assert_eq!(first, Err(QueueError::Busy));
            assert_eq!(join_last(other), Ok(()));
        }
    });
}

fn create(side: &Side, name: &str) -> Result<QueueId, QueueError> {
    let slot = side.worker.slot();
    side.worker.memory.create_queue(&side.worker, &named(name, slot, QueueFlags::empty()))
}

/// One queue has the name, and every other index can still be had.
fn one_has_the_name(group: &Group<'static>, host: &Side, results: &[Result<QueueId, QueueError>]) {
    let won: Vec<_> = results.iter().flatten().collect();
    assert_eq!(won.len(), 1, "{results:?}");
    assert_eq!(group.memory.find_queue("n"), Some(*won[0]));
    assert!(results.iter().flatten().all(|id| state_of(group, id.0 as usize) == ACTIVE));
    assert!(results.iter().all(|r| r.is_ok() || *r == Err(QueueError::Exists)), "{results:?}");
    all_other_indices(group, host, 1);
}

fn all_other_indices(group: &Group<'static>, host: &Side, taken: usize) {
    assert_eq!(create(host, "n"), Err(QueueError::Exists));
    for (_, name) in group.memory.queues.iter().skip(taken).zip(["a", "b", "c"]) {
        assert!(create(host, name).is_ok());
    }
    assert_eq!(create(host, "d"), Err(QueueError::OverLimit));
}

#[test]
fn of_two_creators_of_one_name_one_wins() {
    check("two creators", || {
        let group = group_of(2, [(0, 0); 3]);
        let host = Side::new(&group, HOST, 1);
        let (one, two) = (Side::new(&group, VICTIM, 1), Side::new(&group, PEER, 1));
        let other = spawn(move || create(&one, "n"));
        let result = create(&two, "n");
        let results = [join_last(other), result];
        one_has_the_name(&group, &host, &results);
    });
}

#[test]
fn of_three_creators_of_one_name_one_wins() {
    let model = || {
        let group = group_of(3, [(0, 0); 3]);
        let sides = [HOST, VICTIM, PEER].map(|slot| Side::new(&group, slot, 1));
        let [host, one, two] = sides;
        let first = spawn(move || create(&one, "n"));
        let second = spawn(move || create(&two, "n"));
        let result = create(&host, "n");
        let results = [first.join().unwrap(), join_last(second), result];
        one_has_the_name(&group, &host, &results);
    };
    let bound = if full() { 2 } else { 1 };
    println!("model three creators: {} schedules (bound {bound})", explore_to(bound, model));
}

/// Two that want different names do not disturb each other.
#[test]
fn creators_of_different_names_both_win() {
    check("two names", || {
        let group = group_of(2, [(0, 0); 3]);
        let (one, two) = (Side::new(&group, VICTIM, 1), Side::new(&group, PEER, 1));
        let other = spawn(move || create(&one, "m"));
        assert!(create(&two, "n").is_ok());
        assert!(join_last(other).is_ok());
    });
}

/// The name goes from one life to the next while somebody else wants it.
#[test]
fn destroy_and_create_against_a_create() {
    check("destroy, create and create", || {
        let group = group_of(2, [(0, 0); 3]);
        let mut one = Side::new(&group, VICTIM, 1);
        let two = Side::new(&group, PEER, 1);
        let id = create(&one, "n").unwrap();
        one = one.consumes(id);
        let other = spawn(move || (create(&two, "n"), two));
        destroy(&mut one).unwrap();
        let again = create(&one, "n");
        let (theirs, two) = join_last(other);
        one_has_the_name(&group, &two, &[again, theirs]);
    });
}

/// Sweeps the victim; the books balance with what the peer holds.
fn sweep(sweeper: &mut Sweeper<'static, '_>) {
    let _ = sweeper.sweep(VICTIM, Inputs::Adopt);
}

fn settle(group: &Group<'static>, sweeper: &mut Sweeper<'static, '_>, peer: &Side) {
    let mut swept = Swept::default();
    sweeper.recheck(&mut swept);
    assert_eq!(swept.suspects, 0, "suspects are left after one recheck");
    conserve(group, peer);
    for index in 0..group.memory.queues.len() {
        let state = state_of(group, index);
        assert!(state == FREE || state == ACTIVE, "queue {index} is left in state {state:#x}");
    }
}

/// The victim destroys (`destroys`) or enqueues, the peer does the other; afterwards the queue is
/// destroyed by the living if it is still there, and lives again.
fn end_of_life(nth: u32, destroys: bool, flags: QueueFlags) -> Option<&'static str> {
    let (from, to) = if destroys { (PEER, VICTIM) } else { (VICTIM, PEER) };
    // Fewer messages where the sweep and the peer's drain meet.
    let (group, from, to) = ends(from, to, u32::from(destroys), flags);
    let (mut victim, mut peer) = if destroys { (to, from) } else { (from, to) };
    // A mark of an earlier life must not make a drained message an input.
    let marked = if destroys { &peer } else { &victim };
    marked.worker.of(&marked.held[0]).mark_input(Some(0), 7);
    let act = |side: &mut Side, destroys: bool| {
        if destroys {
            let _ = destroy(side);
        } else {
            send_one(side);
        }
    };
    let dying = spawn(move || until_death(nth, || act(&mut victim, destroys)));
    let living = spawn(move || {
        act(&mut peer, !destroys);
        peer
    });
    let died = dying.join().unwrap();
    let mut words = vec![0; suspect_words(&group)];
    let mut sweeper = Sweeper::new(&group, &mut words);
    sweep(&mut sweeper);
    let mut peer = join_last(living);
    settle(&group, &mut sweeper, &peer);
    let mut next = Side::new(&group, VICTIM, 2);
    if state_of(&group, 0) == ACTIVE {
        let side = if destroys { &mut next } else { &mut peer };
        side.consumer = Some(Consumer::open(&side.worker, QueueId(0)).unwrap());
        destroy(side).unwrap();
    }
    let left: Vec<_> = executor_core::inspect::adoptable(&group, VICTIM).collect();
    assert!(destroys || left.len() <= 1, "only what the producer had marked itself");
    assert!(!destroys || left.is_empty(), "a drained message was left as an input: {left:?}");
    for (_, _, entry) in left {
        let mbuf = next.worker.adopt(entry).unwrap();
        next.held.push(mbuf);
    }
    next.free_all();
    peer.free_all();
    assert_all_free(&group);
    let (from, to) = if destroys { (peer, next) } else { (next, peer) };
    next_life(&group, from, to);
    died
}

#[test]
fn kill_in_destroy_against_an_enqueue() {
    exhaust_points("destroy", 2, |nth| end_of_life(nth, true, QueueFlags::empty()));
}

#[test]
fn kill_in_enqueue_against_a_destroy() {
    exhaust_points("enqueue, destroyed", 1, |nth| end_of_life(nth, false, QueueFlags::empty()));
}

#[test]
fn kill_in_destroy_of_an_overwriting_queue() {
    exhaust_points("destroy, overwriting", 2, |nth| end_of_life(nth, true, QueueFlags::OVERWRITE));
}

/// The victim destroys a shared queue while the peer dequeues.
#[test]
fn kill_in_destroy_against_a_shared_dequeue() {
    exhaust_points("destroy, shared", 2, |nth| {
        let (group, mut host, mut victim) = ends(HOST, VICTIM, 1, QueueFlags::SHARED);
        let id = victim.consumer.as_ref().unwrap().id();
        group.memory.grant_queue(&host.worker, id, PEER, Rights::READ).unwrap();
        let mut peer = Side::new(&group, PEER, 1).consumes(id);
        host.free_all();
        let dying = spawn(move || {
            until_death(nth, || {
                let _ = destroy(&mut victim);
            })
        });
        let living = spawn(move || {
            let got = peer.receive();
            assert!(!matches!(got, Err(DequeueError::Fault)));
            peer
        });
        let died = dying.join().unwrap();
        let mut words = vec![0; suspect_words(&group)];
        let mut sweeper = Sweeper::new(&group, &mut words);
        sweep(&mut sweeper);
        let mut peer = join_last(living);
        settle(&group, &mut sweeper, &peer);
        peer.free_all();
        let mut next = Side::new(&group, VICTIM, 2);
        if state_of(&group, 0) == ACTIVE {
            next = next.consumes(id);
            destroy(&mut next).unwrap();
        }
        assert_all_free(&group);
        next_life(&group, host, next);
        died
    });
}

/// Victim and peer create one name; the victim vanishes, and the peer has it or can have it.
#[test]
fn kill_in_create_against_a_create() {
    exhaust_points("create", 2, |nth| {
        let group = group_of(2, [(0, 0); 3]);
        let (victim, peer) = (Side::new(&group, VICTIM, 1), Side::new(&group, PEER, 1));
        let dying = spawn(move || {
            let mut result = None;
            let died = until_death(nth, || result = Some(create(&victim, "n")));
            (died, result)
        });
        let living = spawn(move || (create(&peer, "n"), peer));
        let (died, result) = dying.join().unwrap();
        let mut words = vec![0; suspect_words(&group)];
        let mut sweeper = Sweeper::new(&group, &mut words);
        sweep(&mut sweeper);
        let (theirs, peer) = join_last(living);
        settle(&group, &mut sweeper, &peer);
        let active = (0..2).filter(|index| state_of(&group, *index) == ACTIVE).count();
        assert!(active <= 1, "the name is had twice");
        assert_eq!(
            theirs.is_ok() || result.is_some_and(|r| r.is_ok()),
            active == 1 && {
                // Killed right after its commit: the queue is there, nobody was told.
                died != Some("create: decided") || theirs.is_ok()
            }
        );
        if active == 0 {
            assert!(died.is_some() && theirs == Err(QueueError::Exists));
            assert!(create(&peer, "n").is_ok());
        }
        all_other_indices(&group, &peer, 1);
        died
    });
}
