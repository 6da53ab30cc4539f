//! Inspection: who holds which mbuf, which ids are alive, what a dead process left. Reads only.
//!
//! A reading is a snapshot of a moving thing: each entry by itself is consistent, the whole is not.
//! Ids that move during a scan can be missed, so "nobody carries it" is only believed after several
//! scans.

use crate::abi::MsgInfo;
use crate::group::Group;
use crate::mbuf::HeadWords;
use crate::owner::{Owner, SlotId};
use crate::pool::references;
use crate::primitive::Ordering;

/// One live mbuf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Entry index.
    pub entry: u32,
    /// Block it refers to.
    pub block: u32,
    /// Slot whose partition the entry belongs to.
    pub home: SlotId,
    /// Who holds it.
    pub owner: Owner,
    /// Its `MsgInfo`.
    pub info: MsgInfo,
    /// Bytes in use.
    pub data_len: u64,
    /// Input port and set, when it was taken from an input.
    pub input: (Option<u32>, u64),
}

/// Counts of a whole group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Entries that are not free.
    pub entries: u32,
    /// Blocks with references.
    pub blocks: u32,
    /// Entries in queues.
    pub queued: u32,
    /// Entries held by workers.
    pub held: u32,
    /// Entries waiting for a successor.
    pub adoptable: u32,
}

/// Every live mbuf of the group.
pub fn held<'g>(group: &Group<'g>) -> impl Iterator<Item = Held> + use<'g> {
    let memory = group.memory;
    (0u32..).zip(memory.entries).filter_map(move |(index, entry)| {
        let owner = Owner::from_word(entry.owner.load(Ordering::Acquire));
        if owner == Owner::Free {
            return None;
        }
        Some(Held {
            entry: index,
            block: entry.block(),
            home: SlotId(memory.blocks.get(index as usize).map_or(u32::MAX, |b| b.slot)),
            owner,
            info: entry.msg_info(),
            data_len: entry.data_len.load(Ordering::Relaxed),
            input: (entry.marks().port(), entry.set.load(Ordering::Relaxed)),
        })
    })
}

/// Counts of the group.
#[must_use]
pub fn usage(group: &Group<'_>) -> Usage {
    let mut usage = Usage::default();
    for mbuf in held(group) {
        usage.entries += 1;
        match mbuf.owner {
            Owner::Queue { .. } => usage.queued += 1,
            Owner::Worker { .. } => usage.held += 1,
            Owner::Adopt { .. } => usage.adoptable += 1,
            _ => {}
        }
    }
    let blocks = group.memory.blocks.iter().zip(group.memory.entries);
    let live =
        blocks.filter(|(b, e)| b.size != 0 && references(e.count.load(Ordering::Acquire)) != 0);
    usage.blocks = u32::try_from(live.count()).unwrap_or(u32::MAX);
    usage
}

/// Entries that the dead process of `slot` left: `(set, port, entry)`, in no order.
pub fn adoptable<'g>(
    group: &Group<'g>,
    slot: SlotId,
) -> impl Iterator<Item = (u64, u32, u32)> + use<'g> {
    held(group).filter_map(move |mbuf| match (mbuf.owner, mbuf.input) {
        (Owner::Adopt { slot: s, .. }, (Some(port), set)) if s == slot.0 => {
            Some((set, port, mbuf.entry))
        }
        _ => None,
    })
}

/// Entries of `slot`'s partition in use, and who holds them: `(holder, entries)` through `report`.
/// For the text of a failed allocation.
pub fn holders<'g>(group: &Group<'g>, slot: SlotId) -> impl Iterator<Item = Held> + use<'g> {
    held(group).filter(move |mbuf| mbuf.home == slot)
}
