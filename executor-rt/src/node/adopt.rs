//! What a dead process of this slot left: its inputs and how far the set inside the function was.
//!
//! The sweep marked the inputs as adoptable; `set_delivered`, `set_done`, `committed` and
//! `attempts` are the dead process's own words, so they are exact up to the instruction where it
//! died, unless its function wrote over them. Numbers that can't be are not believed: whatever is
//! left is one set then, answered with `PEER_FAULT`. What was cached to be aligned, or put together
//! and not delivered, is cached again; its time begins anew.

use executor_core::abi::control::SlotCtl;
use executor_core::error::Code;
use executor_core::inspect;
use executor_core::primitive::Ordering;

use super::reader::CACHED;
use super::{Control, Node, Options};
use crate::plan::exit_kind;

/// Where the successor begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// With collecting; what was collected before is kept.
    Fresh,
    /// The set that was inside the function is given to it again.
    Redeliver,
    /// That set is answered with a code where nothing was committed.
    Answer(Code),
}

/// Takes over the inputs and decides. Allocates: part of setup.
pub fn adopt<C: Control>(node: &mut Node<C>) -> Resume {
    let ctl = node.ctl();
    let believed = restore_numbers(ctl);
    let (done, delivered) =
        (ctl.set_done.load(Ordering::Acquire), ctl.set_delivered.load(Ordering::Acquire));
    // Without believable numbers only what is cached is known to be of no set.
    let no_set = if believed { delivered } else { CACHED - 1 };
    let mut left: Vec<_> = inspect::adoptable(&node.group, node.worker.slot()).collect();
    left.sort_unstable();
    for (set, port, entry) in left {
        let Some(mbuf) = node.worker.adopt(entry) else { continue };
        let Node { reader, worker, .. } = node;
        let mbuf = match reader.take_back(worker, (port, set, no_set), mbuf) {
            Ok(()) => continue,
            Err(mbuf) => mbuf,
        };
        let place = node.reader.inputs.get_mut(port as usize);
        match place.filter(|input| input.held.is_none() && (set > done || !believed)) {
            Some(input) => {
                // Anything after the delivered set is of the next one.
                let set = if believed { set.min(delivered + 1) } else { delivered };
                node.worker.of(&mbuf).mark_input(Some(port), set);
                input.held = Some(mbuf);
            }
            None => node.free(mbuf),
        }
    }
    if delivered <= done {
        return Resume::Fresh;
    }
    if !believed {
        let left = node.reader.first().map(|mbuf| node.worker.of(mbuf).msg_info().trans_id);
        let Some(trans_id) = left else {
            ctl.set_done.store(delivered, Ordering::Release);
            return Resume::Fresh;
        };
        ctl.trans_id.store(trans_id, Ordering::Relaxed);
        return Resume::Answer(Code::PEER_FAULT);
    }
    let complete = node.reader.inputs.iter().all(|input| {
        let held = input.held.as_ref();
        held.is_some_and(|mbuf| node.worker.of(mbuf).input_mark().1 == delivered)
    });
    let status = node.group.memory.slot_status.get(node.worker.slot().0 as usize);
    let kind = status.map(|status| status.exit_kind.load(Ordering::Relaxed));
    let died = if kind == Some(exit_kind::STALLED) { Code::STALLED } else { Code::EXECUTOR_DIED };
    decide(ctl, &node.options, complete && !node.reader.inputs.is_empty(), died)
}

/// No process gets as far as this in its sets.
const SET_MAX: u64 = CACHED;

/// True when the set numbers can be: at most one set is inside the function. Else they begin anew,
/// with one set delivered.
fn restore_numbers(ctl: &SlotCtl) -> bool {
    let done = ctl.set_done.load(Ordering::Acquire);
    let delivered = ctl.set_delivered.load(Ordering::Acquire);
    if done < SET_MAX && (delivered == done || delivered == done + 1) {
        return true;
    }
    ctl.set_done.store(0, Ordering::Release);
    ctl.committed.store(0, Ordering::Release);
    ctl.set_delivered.store(1, Ordering::Release);
    false
}

/// The delivered set was inside the function when the process `died`.
fn decide(ctl: &SlotCtl, options: &Options, complete: bool, died: Code) -> Resume {
    let attempts = ctl.attempts.load(Ordering::Relaxed);
    let fresh = ctl.committed.load(Ordering::Acquire) == 0 && complete;
    if options.redeliver && fresh && attempts <= options.poison_limit {
        ctl.attempts.store(attempts + 1, Ordering::Relaxed);
        return Resume::Redeliver;
    }
    let cause = Code(ctl.last_code.load(Ordering::Acquire));
    Resume::Answer(match cause {
        _ if options.redeliver && fresh && attempts > options.poison_limit => Code::POISON,
        Code::SUCCESS => died,
        cause => cause,
    })
}
