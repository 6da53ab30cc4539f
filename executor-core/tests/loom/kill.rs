//! Kill points, exhaustive: for every verb and every n, the victim vanishes at its n-th kill point
//! while a peer moves; one sweep runs while the peer still moves; then the books must balance.
//!
//! The oracle, after the peer is joined and the suspects were looked at once more:
//! - an entry is free, in the ring of the queue it names, chained to a live head, left for the
//!   successor, or held by somebody alive; a block's count is the number of live entries over it;
//! - no lock and no journal is left; every id comes out once, or died with the victim as the scene
//!   allows;
//! - successors open both ends, the queue carries two laps of messages, and every block can be had
//!   again.

use crate::support::{
    DEPTH, PEER, Side, VICTIM, assert_all_free, explore_to, full, join_last, references, spawn,
};
use executor_core::error::{DequeueError, EnqueueError};
use executor_core::group::Group;
use executor_core::inspect;
use executor_core::journal;
use executor_core::kill::{self, Vanished};
use executor_core::owner::{Owner, QueueId, SlotId};
use executor_core::pool::Head;
use executor_core::primitive::Ordering;
use executor_core::queue::{QueueFlags, Rights};
use executor_core::sweep::{Inputs, Sweeper, Swept, suspect_words};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// One scene: who has what before the victim acts.
pub(crate) struct Stage {
    pub(crate) group: Group<'static>,
    pub(crate) queue: Option<QueueId>,
    pub(crate) victim: Side,
    pub(crate) peer: Side,
    /// Ids in the queue or in hands before anybody moves.
    pub(crate) before: Vec<u64>,
}

/// What the victim does, what the peer does meanwhile, and what may be lost.
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) stage: fn() -> Stage,
    pub(crate) victim: fn(&mut Side),
    pub(crate) peer: fn(&mut Side),
    /// Most ids that may vanish with the victim beyond those it was given and those counted as
    /// dropped.
    pub(crate) may_lose: usize,
    pub(crate) inputs: Inputs,
    /// Preemption bound; one more with `DFLOW_LOOM_FULL=1`.
    pub(crate) bound: usize,
}

impl Scene {
    /// Nothing may be lost, nobody adopts, bound 2.
    pub(crate) fn new(
        name: &'static str,
        stage: fn() -> Stage,
        victim: fn(&mut Side),
        peer: fn(&mut Side),
    ) -> Scene {
        Scene { name, stage, victim, peer, may_lose: 0, inputs: Inputs::Free, bound: 2 }
    }
}

/// Ids that came to light at the end, in order.
#[derive(Default)]
struct Found {
    drained: Vec<u64>,
    adopted: Vec<u64>,
}

/// Runs the scene for n = 0.. until the victim survives; prints what was covered.
pub(crate) fn exhaust(scene: Scene) {
    exhaust_with(scene, |_| {});
}

/// As [`exhaust`]; `sabotage` runs before the sweep (for the canary).
pub(crate) fn exhaust_with(scene: Scene, sabotage: fn(&Group<'static>)) {
    exhaust_points(scene.name, scene.bound, move |nth| play(scene, nth, sabotage));
}

/// Runs `play` for n = 0.. until no schedule's victim vanishes at its n-th kill point; prints what
/// was covered.
pub(crate) fn exhaust_points(
    name: &str,
    bound: usize,
    play: impl Fn(u32) -> Option<&'static str> + Clone + Send + Sync + 'static,
) {
    let start = Instant::now();
    let names = Arc::new(Mutex::new(BTreeSet::new()));
    let bound = bound + usize::from(full());
    let (mut points, mut runs) = (0, 0);
    for nth in 0.. {
        let (seen, fired) = (names.clone(), Arc::new(Mutex::new(false)));
        let reached = fired.clone();
        let play = play.clone();
        runs += explore_to(bound, move || {
            if let Some(name) = play(nth) {
                *reached.lock().unwrap() = true;
                seen.lock().unwrap().insert(name);
            }
        });
        if !*fired.lock().unwrap() {
            break;
        }
        points += 1;
    }
    println!(
        "kill {name}: {points} points, {runs} schedules (bound {bound}), {:.1} s: {:?}",
        start.elapsed().as_secs_f32(),
        names.lock().unwrap()
    );
    crate::points::assert_reached(name, &names.lock().unwrap());
}

/// Plays `act` until the victim vanishes at its n-th kill point; that point's name.
pub(crate) fn until_death(nth: u32, act: impl FnOnce()) -> Option<&'static str> {
    kill::arm(nth);
    let end = catch_unwind(AssertUnwindSafe(act));
    kill::disarm();
    end.err().map(|cause| match cause.downcast::<Vanished>() {
        Ok(vanished) => vanished.0,
        Err(other) => std::panic::resume_unwind(other),
    })
}

fn play(scene: Scene, nth: u32, sabotage: fn(&Group<'static>)) -> Option<&'static str> {
    let Stage { group, queue, mut victim, mut peer, before } = (scene.stage)();
    let dying = spawn(move || {
        let died = until_death(nth, || (scene.victim)(&mut victim));
        (victim, died)
    });
    let living = spawn(move || {
        (scene.peer)(&mut peer);
        peer
    });
    let (victim, died) = dying.join().unwrap();
    let mut words = vec![0; suspect_words(&group)];
    let mut sweeper = Sweeper::new(&group, &mut words);
    sabotage(&group);
    let done = sweeper.sweep(VICTIM, scene.inputs);
    let mut peer = join_last(living);
    let mut swept = Swept::default();
    sweeper.recheck(&mut swept);
    assert_eq!(swept.suspects, 0, "suspects are left after one recheck");
    if let Err(what) = catch_unwind(AssertUnwindSafe(|| conserve(&group, &peer))) {
        println!("victim vanished after: {died:?}; swept {done:?}, then {swept:?}");
        std::panic::resume_unwind(what);
    }
    let mut next = Side::new(&group, VICTIM, 2);
    let found = find(&group, queue, &mut next, &mut peer);
    account(scene, &group, queue, died.is_some(), &before, &victim, &peer, &found);
    assert_all_free(&group);
    if let Some(queue) = queue {
        two_laps(&group, queue, next, peer);
    } else {
        all_blocks(&mut next);
    }
    died
}

/// Every entry is where its owner word says, every count is right, nothing is left locked.
pub(crate) fn conserve(group: &Group<'static>, peer: &Side) {
    let memory = &group.memory;
    let mut over = vec![0u64; memory.entries.len()];
    for mbuf in inspect::held(group) {
        let index = mbuf.entry;
        match mbuf.owner {
            Owner::Worker { slot, .. } => {
                assert_eq!(slot, PEER.0, "entry {index} is held by the dead");
                assert!(peer.held.iter().any(|m| m.entry() == index), "entry {index} is lost");
            }
            Owner::Queue { queue, lane, generation } => {
                let ctl = &memory.queues[queue as usize];
                assert_eq!(
                    ctl.generation.load(Ordering::Acquire),
                    generation,
                    "entry {index} is stranded"
                );
                let (_, place) = ctl.lane_places().find(|(n, _)| *n == lane).unwrap();
                let part = memory.private(place.slot).unwrap();
                let words = part.ring.iter().map(|w| w.load(Ordering::Acquire) & 0x00FF_FFFF);
                assert_eq!(words.filter(|e| *e == u64::from(index)).count(), 1, "entry {index}");
            }
            Owner::Chained { head, generation } => {
                let head = &memory.entries[head as usize];
                assert_ne!(head.owner.load(Ordering::Acquire), 0, "entry {index} is an orphan");
                assert_eq!(head.generation.load(Ordering::Acquire), generation, "entry {index}");
            }
            Owner::Adopt { slot, .. } => assert_eq!(slot, VICTIM.0),
            owner => panic!("entry {index}: {owner:?}"),
        }
        over[mbuf.block as usize] += 1;
    }
    for (block, (entry, over)) in memory.entries.iter().zip(over).enumerate() {
        let count = references(entry.count.load(Ordering::Acquire));
        assert_eq!(count, over, "references of block {block}");
    }
    let locks = memory.queues.iter().map(|q| &q.lock);
    for lock in locks.chain(memory.slot_shared.iter().map(|s| &s.lane_lock)) {
        assert_eq!(lock.load(Ordering::Acquire), 0, "a lock is left");
    }
    for slot in 0..group.slot_count() {
        for open in memory.private(slot).unwrap().journals {
            assert_eq!(journal::read(open), None, "a journal of slot {slot} is left");
        }
    }
}

/// The successor adopts, opens the consumer end if it was the victim's, and drains; all is freed.
fn find(group: &Group<'static>, queue: Option<QueueId>, next: &mut Side, peer: &mut Side) -> Found {
    let mut found = Found::default();
    let left: Vec<_> = inspect::adoptable(group, VICTIM).collect();
    for (_, _, entry) in left {
        let mbuf = next.worker.adopt(entry).expect("adoptable");
        found.adopted.push(next.id_of(&mbuf));
        next.held.push(mbuf);
    }
    if let Some(id) = queue {
        let theirs = peer.consumer.is_some();
        let side = if theirs { &mut *peer } else { &mut *next };
        if !theirs {
            side.consumer = Some(executor_core::queue::Consumer::open(&side.worker, id).unwrap());
        }
        let earlier = side.received.len();
        loop {
            match side.receive() {
                Ok(id) => found.drained.push(id),
                Err(DequeueError::Empty) => break,
                Err(error) => panic!("draining: {error}"),
            }
        }
        side.received.truncate(earlier);
        assert_eq!(group.memory.queues[id.0 as usize].faults.load(Ordering::Relaxed), 0);
    }
    next.free_all();
    peer.free_all();
    found
}

#[allow(clippy::too_many_arguments, reason = "everything that anybody knows of ids")]
fn account(
    scene: Scene,
    group: &Group<'static>,
    queue: Option<QueueId>,
    died: bool,
    before: &[u64],
    victim: &Side,
    peer: &Side,
    found: &Found,
) {
    let mut out: Vec<u64> = peer.received.iter().chain(&found.drained).copied().collect();
    assert!(of_lanes_sorted(&out), "order: {out:?}");
    out.extend(&found.adopted);
    let mut seen = out.clone();
    seen.sort_unstable();
    let count = seen.len();
    seen.dedup();
    assert_eq!(seen.len(), count, "an id came twice: {out:?}");
    for id in before.iter().chain(&peer.sent).chain(&victim.sent) {
        if !seen.contains(id) && victim.received.contains(id) {
            seen.push(*id);
        }
    }
    let sent = before.iter().chain(&peer.sent).chain(&victim.sent);
    let lost = sent.filter(|id| !seen.contains(id)).count();
    let drops = queue.map_or(0, |q| group.memory.query_queue(q).unwrap().drops);
    let allowed = usize::try_from(drops).unwrap() + if died { scene.may_lose } else { 0 };
    assert!(lost <= allowed, "{lost} lost, {allowed} allowed; out {out:?}");
    if scene.inputs == Inputs::Adopt && scene.may_lose == 0 {
        let all: BTreeSet<_> = out.iter().chain(&victim.received).collect();
        assert!(before.iter().all(|id| all.contains(id)), "{all:?}");
    }
}

/// Ids of one sender (same hundred) are in order.
fn of_lanes_sorted(ids: &[u64]) -> bool {
    (0..4).all(|lane| ids.iter().filter(|id| *id / 100 == lane).is_sorted())
}

/// The next generation carries two laps and a half, then meets full and empty.
fn two_laps(group: &Group<'static>, id: QueueId, mut next: Side, mut peer: Side) {
    let ctl = &group.memory.queues[id.0 as usize];
    let places = ctl.lane_places().map(|(_, p)| SlotId(p.slot));
    let slots: Vec<SlotId> =
        places.filter(|s| ctl.rights(*s).contains(Rights::WRITE) && *s != PEER).collect();
    let theirs = peer.consumer.is_some();
    let overwriting = ctl.queue_flags().contains(QueueFlags::OVERWRITE);
    for slot in slots {
        let mut from = Side::new(group, slot, 2).produces(id);
        assert!(from.producer.as_ref().unwrap().is_empty(), "tail is wrong");
        let to = if theirs { &mut peer } else { &mut next };
        for step in 0..u64::from(2 * DEPTH + 1) {
            let mbuf = from.message(step + 300);
            from.send(mbuf).expect("room");
            assert_eq!(to.receive(), Ok(step + 300));
            to.free_all();
        }
        let mut blocks = Vec::new();
        while let Ok(mbuf) = from.worker.alloc(1, Head::Zeroed) {
            blocks.push(mbuf);
        }
        let desc = group.memory.slot_descs[slot.0 as usize];
        assert_eq!(u32::try_from(blocks.len()).unwrap(), desc.block_count, "blocks leaked");
        for (step, mbuf) in (0..).zip(blocks) {
            match from.send(mbuf) {
                Ok(()) => assert!(step < DEPTH || overwriting),
                Err((mbuf, EnqueueError::Full)) => {
                    assert!(step >= DEPTH);
                    from.held.push(mbuf);
                }
                Err((_, error)) => panic!("{error}"),
            }
        }
        from.free_all();
        while to.receive().is_ok() {}
        to.free_all();
    }
    assert_all_free(group);
}

/// Every block of the slot can be had.
fn all_blocks(side: &mut Side) {
    let desc = side.worker.memory.slot_descs[side.worker.slot().0 as usize];
    for _ in 0..desc.block_count {
        let mbuf = side.message(1);
        side.held.push(mbuf);
    }
    for _ in 0..if desc.block_count == 0 { 0 } else { desc.extra_count } {
        let copy = side.worker.copy_ref(&side.held[0]).expect("every extra entry");
        side.held.push(copy);
    }
    side.free_all();
}
