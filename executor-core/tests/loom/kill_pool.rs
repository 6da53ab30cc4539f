//! Kill points of the pool's verbs: alloc, copy_ref, free, chains, adopt.

use crate::kill::{Scene, Stage, exhaust, exhaust_with};
use crate::support::{HOST, PEER, Side, VICTIM, full, group};
use executor_core::journal::{self, Op, Record};
use executor_core::owner::Owner;
use executor_core::pool::Head;
use executor_core::primitive::Ordering;
use executor_core::sweep::Inputs;

/// A block of the victim's partition that its slot has given up and of which the peer has the last
/// copy, and a spare extra entry of the peer.
fn last_copy_at_peer() -> Stage {
    let group = group([(0, 0), (2, 1), (0, 2)]);
    let mut victim = Side::new(&group, VICTIM, 1);
    let mut peer = Side::new(&group, PEER, 1);
    let mbuf = victim.message(1);
    let copy = peer.worker.copy_ref(&mbuf).unwrap();
    peer.held.push(copy);
    let _ = victim.worker.free(mbuf);
    Stage { group, queue: None, victim, peer, before: Vec::new() }
}

/// Both hold the same block; the victim's extra entry and one of the peer's are spare and have a
/// past.
fn shared_block() -> Stage {
    let mut stage = last_copy_at_peer();
    let mbuf = stage.victim.worker.copy_ref(&stage.peer.held[0]).unwrap();
    stage.victim.held.push(mbuf);
    stage
}

fn copy_then_free_both(peer: &mut Side) {
    if let Ok(copy) = peer.worker.copy_ref(&peer.held[0]) {
        peer.held.push(copy);
    }
    peer.free_first();
}

#[test]
fn alloc() {
    exhaust(Scene::new(
        "alloc",
        last_copy_at_peer,
        |victim| {
            for _ in 0..2 {
                if let Ok(mbuf) = victim.worker.alloc(1, Head::Zeroed) {
                    victim.held.push(mbuf);
                }
            }
        },
        Side::free_all,
    ));
}

#[test]
fn copy_ref() {
    exhaust(Scene::new(
        "copy_ref",
        last_copy_at_peer,
        |victim| {
            let mbuf = victim.message(2);
            let copy = victim.worker.copy_ref(&mbuf).unwrap();
            victim.held.push(mbuf);
            victim.held.push(copy);
        },
        Side::free_all,
    ));
}

/// The victim copies the very block that the peer copies and frees.
#[test]
fn copy_ref_of_a_shared_block() {
    fn stage() -> Stage {
        let group = group([(1, 0), (0, 1), (0, 2)]);
        let mut host = Side::new(&group, HOST, 1);
        let mut peer = Side::new(&group, PEER, 1);
        let mut victim = Side::new(&group, VICTIM, 1);
        let mbuf = host.message(1);
        let copy = peer.worker.copy_ref(&mbuf).unwrap();
        peer.held.push(copy);
        // The victim came to hold the host's primary entry the usual way, in short.
        let tag = Owner::Worker { slot: VICTIM.0, worker: 0, generation: 1 };
        let entry = mbuf.into_entry();
        group.memory.entries[entry as usize].owner.store(tag.word(), Ordering::Release);
        victim.held.push(victim.worker.reclaim(entry).unwrap());
        Stage { group, queue: None, victim, peer, before: Vec::new() }
    }
    exhaust(Scene {
        bound: 1,
        ..Scene::new(
            "copy_ref shared",
            stage,
            |victim| {
                let copy = victim.worker.copy_ref(&victim.held[0]).unwrap();
                victim.held.push(copy);
            },
            copy_then_free_both,
        )
    });
}

#[test]
fn free() {
    exhaust(Scene::new("free", shared_block, Side::free_all, Side::free_all));
}

/// The peer takes another life of an extra entry that once referred to the suspect block.
#[test]
fn free_while_the_peer_copies_another_block() {
    fn stage() -> Stage {
        let group = group([(0, 0), (1, 1), (1, 1)]);
        let mut victim = Side::new(&group, VICTIM, 1);
        let mut peer = Side::new(&group, PEER, 1);
        let mbuf = victim.message(1);
        // The peer's extra entry has pointed at the victim's block before.
        let past = peer.worker.copy_ref(&mbuf).unwrap();
        let _ = peer.worker.free(past);
        let copy = victim.worker.copy_ref(&mbuf).unwrap();
        victim.held.push(mbuf);
        // One reference goes to the peer's hands: it outlives the sweep.
        let tag = Owner::Worker { slot: PEER.0, worker: 0, generation: 1 };
        let entry = copy.into_entry();
        group.memory.entries[entry as usize].owner.store(tag.word(), Ordering::Release);
        peer.held.push(peer.worker.reclaim(entry).unwrap());
        let own = peer.message(2);
        peer.held.push(own);
        Stage { group, queue: None, victim, peer, before: Vec::new() }
    }
    exhaust(Scene::new("free, peer copies", stage, Side::free_all, |peer| {
        let copy = peer.worker.copy_ref(&peer.held[1]).unwrap();
        peer.held.push(copy);
    }));
}

/// Victim and peer each hold a chain of two; the peer frees its own while the victim's is swept.
fn two_chains() -> Stage {
    let group = group([(0, 0), (2, 0), (2, 0)]);
    let mut victim = Side::new(&group, VICTIM, 1);
    let mut peer = Side::new(&group, PEER, 1);
    for side in [&mut victim, &mut peer] {
        let head = side.message(1);
        let member = side.message(2);
        side.worker.chain_append(&head, member).unwrap();
        side.held.push(head);
    }
    Stage { group, queue: None, victim, peer, before: Vec::new() }
}

#[test]
fn chain_free() {
    exhaust(Scene {
        bound: 1,
        ..Scene::new("chain free", two_chains, Side::free_all, |peer| {
            peer.free_all();
            // In the full run the entries begin another life at once.
            while full()
                && let Ok(mbuf) = peer.worker.alloc(1, Head::Zeroed)
            {
                peer.held.push(mbuf);
            }
        })
    });
}

/// A live peer frees its chain and takes its entries again while a sweep looks for orphans: the
/// sweep must not
/// free what has begun another life.
#[test]
fn orphans_are_not_sought_among_the_living() {
    fn stage() -> Stage {
        let group = group([(0, 0), (0, 0), (2, 0)]);
        let victim = Side::new(&group, VICTIM, 1);
        let mut peer = Side::new(&group, PEER, 1);
        let head = peer.message(1);
        let member = peer.message(2);
        peer.worker.chain_append(&head, member).unwrap();
        peer.held.push(head);
        Stage { group, queue: None, victim, peer, before: Vec::new() }
    }
    exhaust(Scene::new(
        "orphans",
        stage,
        |_| {},
        |peer| {
            peer.free_all();
            while let Ok(mbuf) = peer.worker.alloc(1, Head::Zeroed) {
                peer.held.push(mbuf);
            }
        },
    ));
}

#[test]
fn chain_append() {
    fn stage() -> Stage {
        let mut stage = shared_block();
        let head = stage.victim.message(2);
        stage.victim.held.insert(0, head);
        stage
    }
    exhaust(Scene::new(
        "chain append",
        stage,
        |victim| {
            let member = victim.held.pop().unwrap();
            victim.worker.chain_append(&victim.held[0], member).unwrap();
        },
        Side::free_all,
    ));
}

/// A chain whose head is an unanswered input: it is adopted whole or without the member, never with
/// a member that somebody else has.
#[test]
fn chain_append_to_an_input() {
    fn stage() -> Stage {
        let mut stage = shared_block();
        let head = stage.victim.message(2);
        stage.victim.worker.of(&head).mark_input(Some(0), 1);
        stage.victim.held.insert(0, head);
        stage
    }
    exhaust(Scene {
        inputs: Inputs::Adopt,
        ..Scene::new(
            "chain append to an input",
            stage,
            |victim| {
                let member = victim.held.pop().unwrap();
                victim.worker.chain_append(&victim.held[0], member).unwrap();
            },
            Side::free_all,
        )
    });
}

#[test]
fn adopt() {
    fn stage() -> Stage {
        let mut stage = shared_block();
        let mbuf = stage.victim.held.pop().unwrap();
        stage.victim.worker.of(&mbuf).mark_input(Some(0), 1);
        let entry = mbuf.into_entry();
        let adopt = Owner::Adopt { slot: VICTIM.0, generation: 0 };
        stage.group.memory.entries[entry as usize].owner.store(adopt.word(), Ordering::Release);
        stage
    }
    exhaust(Scene {
        inputs: Inputs::Adopt,
        ..Scene::new(
            "adopt",
            stage,
            |victim| {
                let first = victim.worker.memory.slot_descs[VICTIM.0 as usize];
                let mbuf = victim.worker.adopt(first.first_entry + first.block_count).unwrap();
                let _ = victim.worker.free(mbuf);
            },
            Side::free_all,
        )
    });
}

/// With the repair of the journals switched off a model must fail: the harness sees what it is
/// there for.
#[test]
fn canary_without_the_journals_the_books_do_not_balance() {
    let broken = std::panic::catch_unwind(|| {
        exhaust_with(Scene::new("canary", shared_block, Side::free_all, Side::free_all), |group| {
            let part = group.memory.private(VICTIM.0).unwrap();
            if journal::read(&part.journals[0]).is_some() {
                let harmless = Record::of(Op::Free, u32::MAX, u32::MAX);
                journal::open(&part.journals[0], &harmless);
            }
        });
    });
    assert!(broken.is_err(), "a sweep without the journals passed");
    println!("canary: the model failed as it must");
}
