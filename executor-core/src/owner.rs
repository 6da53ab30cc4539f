//! Who holds an mbuf entry, and ids with their newtypes.
//!
//! ```text
//! 63    56 55        40 39    32 31               0
//! [ kind  ][ a        ][ b      ][ c               ]
//!  0 FREE
//!  1 WORKER   slot       worker    slot generation
//!  2 QUEUE    queue      lane      generation of the queue
//!  3 CHAINED  (a,b = 24-bit entry of the head)  entry generation of the head
//!  4 ADOPT    slot       0         slot generation that died
//! ```
//! Invariant O1: an entry's owner word changes *before* the index that publishes the move (queue
//! position, head), so a sweep of a dead worker touches only entries tagged with it or named in its
//! journal, never one that a live peer is moving.

/// A process slot of the group; 0 is the host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotId(pub u32);

/// A queue of the group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueueId(pub u32);

impl QueueId {
    /// An output that nobody reads (executor-deployer §0.5).
    pub const DUMMY: QueueId = QueueId(u32::MAX);
}

/// A waiter: index in the group's waiter table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WaiterId(pub u32);

/// State of a slot as the supervisor sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum SlotState {
    /// Never started.
    Vacant = 0,
    /// Spawned, not ready yet.
    Starting = 1,
    /// Ready.
    Running = 2,
    /// Stopped by a signal.
    Stopped = 3,
    /// Died; being swept.
    Dead = 4,
    /// Swept; waits for its back-off before the next start.
    BackOff = 5,
    /// Not restarted any more.
    Failed = 6,
    /// Ended as asked.
    Ended = 7,
}

impl TryFrom<u32> for SlotState {
    type Error = u32;

    fn try_from(value: u32) -> Result<Self, u32> {
        Ok(match value {
            0 => Self::Vacant,
            1 => Self::Starting,
            2 => Self::Running,
            3 => Self::Stopped,
            4 => Self::Dead,
            5 => Self::BackOff,
            6 => Self::Failed,
            7 => Self::Ended,
            other => return Err(other),
        })
    }
}

/// A decoded owner word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// Nobody; may be allocated by the entry's own slot.
    Free,
    /// A worker of a process.
    Worker {
        /// Its slot.
        slot: u32,
        /// Its number in the slot.
        worker: u32,
        /// Generation of the process.
        generation: u32,
    },
    /// A lane of a queue.
    Queue {
        /// The queue.
        queue: u32,
        /// The lane.
        lane: u32,
        /// Life of the queue: what a destroyed queue still holds is nobody's but its finder's.
        generation: u32,
    },
    /// Part of the chain of another entry.
    Chained {
        /// Entry of the head.
        head: u32,
        /// Its generation.
        generation: u32,
    },
    /// Left by a dead process for its successor in the same slot.
    Adopt {
        /// The slot.
        slot: u32,
        /// Generation that died.
        generation: u32,
    },
    /// No value this project writes.
    Unknown(u64),
}

impl Owner {
    /// The word of a free entry.
    pub const FREE_WORD: u64 = 0;

    /// Packs the owner into its word.
    #[must_use]
    pub const fn word(self) -> u64 {
        match self {
            Owner::Free => 0,
            Owner::Worker { slot, worker, generation } => pack(1, slot, worker, generation),
            Owner::Queue { queue, lane, generation } => pack(2, queue, lane, generation),
            Owner::Chained { head, generation } => {
                3 << 56 | (head as u64 & 0x00FF_FFFF) << 32 | generation as u64
            }
            Owner::Adopt { slot, generation } => pack(4, slot, 0, generation),
            Owner::Unknown(word) => word,
        }
    }

    /// Reads an owner word.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "fields are cut out of the word")]
    pub const fn from_word(word: u64) -> Owner {
        let (a, b, c) = ((word >> 40) as u32 & 0xFFFF, (word >> 32) as u32 & 0xFF, word as u32);
        match word >> 56 {
            0 if word == 0 => Owner::Free,
            1 => Owner::Worker { slot: a, worker: b, generation: c },
            2 => Owner::Queue { queue: a, lane: b, generation: c },
            3 => Owner::Chained { head: (word >> 32) as u32 & 0x00FF_FFFF, generation: c },
            4 if b == 0 => Owner::Adopt { slot: a, generation: c },
            _ => Owner::Unknown(word),
        }
    }
}

const fn pack(kind: u64, a: u32, b: u32, c: u32) -> u64 {
    kind << 56 | (a as u64 & 0xFFFF) << 40 | (b as u64 & 0xFF) << 32 | c as u64
}

#[cfg(test)]
mod tests {
    use super::Owner;

    #[test]
    fn words_round_trip() {
        let owners = [
            Owner::Free,
            Owner::Worker { slot: 63, worker: 255, generation: u32::MAX },
            Owner::Queue { queue: 8191, lane: 31, generation: u32::MAX },
            Owner::Chained { head: 0x00FF_FFFF, generation: 7 },
            Owner::Adopt { slot: 2, generation: 9 },
        ];
        for owner in owners {
            assert_eq!(Owner::from_word(owner.word()), owner);
        }
        assert!(matches!(Owner::from_word(9 << 56), Owner::Unknown(_)));
        assert!(matches!(Owner::from_word(5), Owner::Unknown(_)));
    }
}
