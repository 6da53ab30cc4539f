//! Who holds the mbufs of a partition, as text: for the line of a failed allocation.

use core::fmt;

use executor_core::abi::control::MAX_SLOTS;
use executor_core::group::Group;
use executor_core::inspect;
use executor_core::owner::{Owner, SlotId};

/// Queues that are named one by one; the rest is summed up.
const QUEUES_NAMED: usize = 32;

/// Counts of one partition's live entries by holder.
#[derive(Debug)]
pub(crate) struct Holders {
    slots: [u32; MAX_SLOTS],
    queues: [(u32, u32); QUEUES_NAMED],
    others: u32,
}

impl Holders {
    /// Counts now; others go on meanwhile.
    pub(crate) fn of(group: &Group<'_>, partition: SlotId) -> Holders {
        let mut holders =
            Holders { slots: [0; MAX_SLOTS], queues: [(0, 0); QUEUES_NAMED], others: 0 };
        for held in inspect::holders(group, partition) {
            match held.owner {
                Owner::Worker { slot, .. } | Owner::Adopt { slot, .. } => holders.add_slot(slot),
                Owner::Queue { queue, .. } => holders.add_queue(queue),
                _ => holders.others += 1,
            }
        }
        holders
    }

    fn add_slot(&mut self, slot: u32) {
        match self.slots.get_mut(slot as usize) {
            Some(count) => *count += 1,
            None => self.others += 1,
        }
    }

    fn add_queue(&mut self, queue: u32) {
        let place = self.queues.iter_mut().find(|(id, count)| *count == 0 || *id == queue);
        match place {
            Some(place) => *place = (queue, place.1 + 1),
            None => self.others += 1,
        }
    }
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (slot, count) in self.slots.iter().enumerate().filter(|(_, count)| **count != 0) {
            write!(f, "{separator}slot {slot}: {count}")?;
            separator = ", ";
        }
        for (queue, count) in self.queues.iter().filter(|(_, count)| *count != 0) {
            write!(f, "{separator}queue {queue}: {count}")?;
            separator = ", ";
        }
        if self.others != 0 {
            write!(f, "{separator}others: {}", self.others)?;
            separator = ", ";
        }
        if separator.is_empty() { f.write_str("nobody") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Holders, MAX_SLOTS, QUEUES_NAMED};

    #[test]
    fn text_names_everybody_with_a_count() {
        let mut holders =
            Holders { slots: [0; MAX_SLOTS], queues: [(0, 0); QUEUES_NAMED], others: 0 };
        assert_eq!(holders.to_string(), "nobody");
        holders.add_slot(2);
        holders.add_slot(2);
        holders.add_slot(99);
        holders.add_queue(0);
        holders.add_queue(7);
        holders.add_queue(0);
        assert_eq!(holders.to_string(), "slot 2: 2, queue 0: 2, queue 7: 1, others: 1");
    }
}
