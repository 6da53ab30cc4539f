//! A memory group of a measurement: two slots, each with a partition of equal blocks, made and
//! attached by the functions that executors use. The mappings live until the process ends.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use executor_core::layout::{GroupConfig, PartitionConfig, PoolConfig};
use executor_core::owner::SlotId;
use executor_core::pool::Worker;
use executor_rt::attach::{Attached, Role, attach, create};

use crate::Failure;

/// Generation of every process of a measurement; there are no restarts.
const GENERATION: u32 = 1;

/// Sizes of a measurement's group.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Bytes of a block, descriptor included.
    pub block_size: u64,
    /// Blocks of each slot.
    pub block_count: u32,
    /// Messages a queue holds.
    pub depth: u32,
}

/// A group and the descriptors that hold it.
#[derive(Debug)]
pub struct Memory {
    /// This process's view.
    pub attached: &'static Attached,
    control: OwnedFd,
    arena: OwnedFd,
}

impl Memory {
    /// Makes a group, every page touched, and attaches as slot 0.
    ///
    /// # Errors
    /// The sizes are impossible, or the kernel refused memory.
    pub fn create(sizes: Sizes) -> Result<Self, Failure> {
        let pools = [PoolConfig { block_size: sizes.block_size, block_count: sizes.block_count }];
        let partition = PartitionConfig { pools: &pools, extra_entries: 2 };
        let config = GroupConfig {
            name: "benches",
            partitions: &[partition, partition],
            workers: 1,
            lanes: 2,
            heads: 2,
            ring_words: 2 * sizes.depth,
            queues: 2,
        };
        let created = create(&config, true)?;
        Self::join(created.control, created.arena, SlotId(0))
    }

    /// Attaches as `slot` to the group whose descriptors were inherited under these numbers.
    ///
    /// # Errors
    /// The descriptors are not those of a group.
    pub fn inherited(control: i32, arena: i32, slot: SlotId) -> Result<Self, Failure> {
        let open = |number: i32| -> Result<OwnedFd, Failure> {
            let path = format!("/proc/self/fd/{number}");
            let file: File = OpenOptions::new().read(true).write(true).open(path)?;
            Ok(file.into())
        };
        Self::join(open(control)?, open(arena)?, slot)
    }

    fn join(control: OwnedFd, arena: OwnedFd, slot: SlotId) -> Result<Self, Failure> {
        let attached = attach(control.as_fd(), arena.as_fd(), Role::Member(slot))?;
        attached.populate_own()?;
        Ok(Self { attached, control, arena })
    }

    /// The worker of this process.
    ///
    /// # Errors
    /// The group has no such slot.
    pub fn worker(&self) -> Result<Worker<'static>, Failure> {
        Ok(self.attached.worker(0, GENERATION)?)
    }

    /// Numbers under which a child inherits control segment and arena.
    #[must_use]
    pub fn numbers(&self) -> [i32; 2] {
        [self.control.as_raw_fd(), self.arena.as_raw_fd()]
    }

    /// The descriptors, for spawning.
    #[must_use]
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.control.as_fd(), self.arena.as_fd()]
    }
}
