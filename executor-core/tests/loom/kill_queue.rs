//! Kill points of the queue's verbs: enqueue, overwriting enqueue, dequeue, locked dequeue, grant.

use crate::kill::{Scene, Stage, exhaust};
use crate::support::{HOST, PEER, Side, VICTIM, advance_by, full, group, queue};
use executor_core::queue::{QueueFlags, Rights};
use executor_core::sweep::Inputs;

fn try_send(side: &mut Side) {
    if !side.held.is_empty() {
        let mbuf = side.held.remove(0);
        if let Err((mbuf, _)) = side.send(mbuf) {
            side.held.insert(0, mbuf);
        }
    }
}

fn receive_and_free(side: &mut Side) {
    if side.receive().is_ok() {
        side.free_all();
    }
}

/// In the full run the peer also frees what it took.
fn receive(side: &mut Side) {
    if side.receive().is_ok() && full() {
        side.free_all();
    }
}

/// Victim produces, peer consumes; `queued` of its two messages are in the ring, before the wrap.
fn producing(queued: usize, flags: QueueFlags) -> Stage {
    let group = group([(0, 0), (3, 0), (0, 0)]);
    let id = queue(&group, PEER, &[VICTIM], flags);
    let mut victim = Side::new(&group, VICTIM, 1).produces(id);
    let mut peer = Side::new(&group, PEER, 1).consumes(id);
    advance_by(3, &mut victim, &mut peer);
    for id in [101, 102, 103] {
        let mbuf = victim.message(id);
        victim.held.push(mbuf);
    }
    for _ in 0..queued {
        try_send(&mut victim);
    }
    let before = std::mem::take(&mut victim.sent);
    Stage { group, queue: Some(id), victim, peer, before }
}

/// Victim consumes, peer produces; the peer holds what is not queued.
fn consuming(queued: usize) -> Stage {
    let group = group([(0, 0), (0, 0), (3, 0)]);
    let id = queue(&group, VICTIM, &[PEER], QueueFlags::empty());
    let mut peer = Side::new(&group, PEER, 1).produces(id);
    let mut victim = Side::new(&group, VICTIM, 1).consumes(id);
    advance_by(3, &mut peer, &mut victim);
    for id in [201, 202, 203] {
        let mbuf = peer.message(id);
        peer.held.push(mbuf);
    }
    for _ in 0..queued {
        try_send(&mut peer);
    }
    let before = std::mem::take(&mut peer.sent);
    Stage { group, queue: Some(id), victim, peer, before }
}

#[test]
fn enqueue() {
    exhaust(Scene::new("enqueue", || producing(1, QueueFlags::empty()), try_send, receive));
}

#[test]
fn enqueue_into_a_full_queue() {
    exhaust(Scene::new("enqueue, full", || producing(2, QueueFlags::empty()), try_send, receive));
}

#[test]
fn overwriting_enqueue() {
    exhaust(Scene {
        may_lose: 1,
        ..Scene::new(
            "overwriting enqueue",
            || producing(2, QueueFlags::OVERWRITE),
            try_send,
            receive,
        )
    });
}

/// Nothing may be lost: what the victim took and did not answer is adopted.
#[test]
fn dequeue() {
    exhaust(Scene {
        inputs: Inputs::Adopt,
        ..Scene::new(
            "dequeue",
            || consuming(1),
            |victim| {
                let _ = victim.receive();
            },
            try_send,
        )
    });
}

/// The queue is full and the producer waits for room: head, full_waiting, sweep.
#[test]
fn dequeue_from_a_full_queue() {
    exhaust(Scene {
        inputs: Inputs::Adopt,
        ..Scene::new(
            "dequeue, full",
            || {
                let stage = consuming(2);
                stage.peer.producer.as_ref().unwrap().register_full_wait();
                stage
            },
            |victim| {
                let _ = victim.receive();
            },
            try_send,
        )
    });
}

#[test]
fn locked_dequeue() {
    fn stage() -> Stage {
        let group = group([(2, 0), (0, 0), (0, 0)]);
        let id = queue(&group, PEER, &[HOST], QueueFlags::SHARED);
        let mut host = Side::new(&group, HOST, 1).produces(id);
        group.memory.grant_queue(&host.worker, id, VICTIM, Rights::READ).unwrap();
        let victim = Side::new(&group, VICTIM, 1).consumes(id);
        let mut peer = Side::new(&group, PEER, 1).consumes(id);
        advance_by(3, &mut host, &mut peer);
        for id in [1, 2] {
            let mbuf = host.message(id);
            host.send(mbuf).unwrap();
        }
        Stage { group, queue: Some(id), victim, peer, before: host.sent }
    }
    exhaust(Scene {
        inputs: Inputs::Adopt,
        ..Scene::new(
            "locked dequeue",
            stage,
            |victim| {
                let _ = victim.receive();
            },
            receive_and_free,
        )
    });
}

/// A producer that dies while it grants: the locks over two slots' lanes are broken, the lane can
/// be placed.
#[test]
fn grant() {
    fn stage() -> Stage {
        let stage = producing(1, QueueFlags::empty());
        let host = Side::new(&stage.group, HOST, 1);
        let id = stage.queue.unwrap();
        stage.group.memory.grant_queue(&host.worker, id, VICTIM, Rights::MANAGE).unwrap();
        stage
    }
    exhaust(Scene {
        bound: 1,
        ..Scene::new(
            "grant",
            stage,
            |victim| {
                let id = victim.producer.as_ref().unwrap().id();
                let memory = victim.worker.memory;
                let _ = memory.grant_queue(&victim.worker, id, PEER, Rights::WRITE);
            },
            receive,
        )
    });
}
