//! Creating a memory group and attaching a process to one: mappings become a [`Group`].
//!
//! ```text
//!               header   status   shared   private(slot)   others' private   own partition   arena
//! Executor      r        r        rw       rw              r                 rw              r
//! Supervisor    r        rw       rw       rw              rw                r               r
//! Reader        r        r        r        r               r                 r               r
//! ```
//! Everything is mapped read-only first and the writable parts are laid over it, so a wild write
//! into a foreign part faults. A process of several slots has all their parts as its own. The group
//! lives as long as the process: mappings are leaked on purpose, and [`Attached::retire`] hands the
//! memory back while keeping the addresses reserved.
#![allow(unsafe_code, reason = "the one place that turns mappings into a group")]

use core::fmt;
use core::ptr::NonNull;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use executor_core::abi::control::Header;
use executor_core::error::{AttachError, Code};
use executor_core::group::{self, Group};
use executor_core::layout::{ConfigError, GroupConfig, Layout, PAGE};
use executor_core::owner::SlotId;
use sys::mapping::{Access, Mapping};
use sys::{SysError, memfd};

/// What a process may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The process of this slot: host or executor.
    Member(SlotId),
    /// The supervisor: status and every private part, no partition.
    Supervisor,
    /// A tool: nothing.
    Reader,
}

/// Why attaching failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The segment is not one of ours, or of another version or size.
    Attach(AttachError),
    /// A call to the system failed.
    Sys(SysError),
    /// The numbers of the group are impossible.
    Config(ConfigError),
}

impl Failure {
    /// The code for peers and callers.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Failure::Attach(e) => e.code(),
            Failure::Sys(_) => Code::MEMORY_ALLOCATION,
            Failure::Config(_) => Code::INVALID_VALUE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Attach(e) => write!(f, "{e}"),
            Failure::Sys(e) => write!(f, "{e}"),
            Failure::Config(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<SysError> for Failure {
    fn from(e: SysError) -> Self {
        Failure::Sys(e)
    }
}

impl From<AttachError> for Failure {
    fn from(e: AttachError) -> Self {
        Failure::Attach(e)
    }
}

impl From<ConfigError> for Failure {
    fn from(e: ConfigError) -> Self {
        Failure::Config(e)
    }
}

/// A new group's descriptors: sealed in size, shared by inheritance.
#[derive(Debug)]
pub struct Created {
    /// Control segment.
    pub control: OwnedFd,
    /// Arena.
    pub arena: OwnedFd,
    /// Sizes.
    pub layout: Layout,
}

/// Creates a group: two memfds, formatted and sealed. With `populate`, every page of the partitions
/// is touched now (2.2 us a page) instead of in the first messages.
///
/// # Errors
/// [`Failure::Config`] for impossible numbers, [`Failure::Sys`] when memory is refused.
pub fn create(config: &GroupConfig<'_>, populate: bool) -> Result<Created, Failure> {
    let layout = Layout::compute(config)?;
    let control = memfd::create("dflow-control", layout.control_len)?;
    memfd::seal_size(&control)?;
    let mapping = Mapping::shared(control.as_fd(), to_len(layout.control_len)?, Access::ReadWrite)?;
    // SAFETY:
    // - the mapping is readable, writable and that long;
    // - nobody else has the descriptor yet, and the slice ends before the mapping does.
    let bytes = unsafe { core::slice::from_raw_parts_mut(mapping.as_ptr(), mapping.len()) };
    group::format(bytes, config)?;
    let arena_len = layout.arena_len.max(PAGE);
    let arena = memfd::create("dflow-arena", arena_len)?;
    memfd::seal_size(&arena)?;
    if populate {
        let mapping = Mapping::shared(arena.as_fd(), to_len(arena_len)?, Access::ReadWrite)?;
        mapping.populate_write(0, mapping.len())?;
    }
    Ok(Created { control, arena, layout })
}

fn to_len(len: u64) -> Result<usize, Failure> {
    usize::try_from(len).map_err(|_| Failure::Config(ConfigError::TotalSize(len)))
}

/// A process's mapping of a group.
#[derive(Debug)]
pub struct Attached {
    /// The group.
    pub group: Group<'static>,
    /// What this process may write.
    pub role: Role,
    /// Further slots of this process.
    pub also: Box<[SlotId]>,
    name: [u8; 32],
    control: Mapping,
    arena: Mapping,
}

/// Attaches this process with one slot. The descriptors may be closed afterwards.
///
/// # Errors
/// [`Failure::Attach`] for garbage, a truncated, newer or otherwise sized segment, or a slot out of
/// range.
pub fn attach(
    control: BorrowedFd<'_>,
    arena: BorrowedFd<'_>,
    role: Role,
) -> Result<&'static Attached, Failure> {
    attach_all(control, arena, role, &[])
}

/// As [`attach`], for a process that owns several slots (a device: one for each of its models): a
/// member may write the private parts and partitions of `also`, too.
///
/// # Errors
/// As [`attach`]; [`AttachError::Slot`] also for a slot that is named twice.
pub fn attach_all(
    control: BorrowedFd<'_>,
    arena: BorrowedFd<'_>,
    role: Role,
    also: &[SlotId],
) -> Result<&'static Attached, Failure> {
    let control_len = memfd::len(control)?;
    let arena_len = memfd::len(arena)?;
    if control_len < PAGE || arena_len < PAGE {
        return Err(Failure::Attach(AttachError::Truncated));
    }
    let control_map = Mapping::shared(control, to_len(control_len)?, Access::Read)?;
    let arena_map = Mapping::shared(arena, to_len(arena_len)?, Access::Read)?;
    let start = |map: &Mapping| NonNull::new(map.as_ptr()).ok_or(AttachError::Truncated);
    // SAFETY:
    // - both mappings are that long, shared and page-aligned, and live as long as the process
    //   (leaked below);
    // - the header section is mapped read-only by every process after `create`;
    // - `Worker`s are made by `Attached::worker` only, after the writable parts were laid over.
    let group: Group<'static> =
        unsafe { Group::attach(start(&control_map)?, control_len, start(&arena_map)?, arena_len) }?;
    let layout = group.memory.layout;
    let overlay = |from: u64, to: u64| -> Result<(), Failure> {
        let (from, to) = (to_len(from)?, to_len(to)?);
        Ok(control_map.overlay(control, from, to - from, Access::ReadWrite)?)
    };
    match role {
        Role::Member(slot) => {
            overlay(layout.shared, layout.private)?;
            let slots: Vec<SlotId> = [slot].iter().chain(also).copied().collect();
            for (index, slot) in slots.iter().enumerate() {
                let desc = group.memory.slot_descs.get(slot.0 as usize);
                let twice = slots.iter().take(index).any(|other| other == slot);
                let desc = desc.filter(|_| !twice).ok_or(AttachError::Slot)?;
                let private = layout.private_offset(slot.0);
                overlay(private, private + layout.private_stride)?;
                if desc.partition_len != 0 {
                    let (at, len) = (to_len(desc.partition_offset)?, to_len(desc.partition_len)?);
                    arena_map.overlay(arena, at, len, Access::ReadWrite)?;
                }
            }
        }
        Role::Supervisor => overlay(layout.status, layout.control_len)?,
        Role::Reader => {}
    }
    // SAFETY: readable, page-aligned, long enough (checked by `Group::attach`), written by nobody
    // any more.
    let header = unsafe { start(&control_map)?.cast::<Header>().read_volatile() };
    control_map.dont_fork()?;
    arena_map.dont_fork()?;
    let (control, arena) = (control_map, arena_map);
    let also = also.into();
    Ok(Box::leak(Box::new(Attached { group, role, also, name: header.name, control, arena })))
}

impl Attached {
    /// The name its creator gave the group; bytes after the first NUL or invalid one do not count.
    #[must_use]
    pub fn name(&self) -> &str {
        let name = self.name.split(|byte| *byte == 0).next().unwrap_or(&[]);
        name.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }

    /// Worker `index` of this process, generation `generation`.
    ///
    /// # Errors
    /// [`AttachError::Slot`] for a supervisor or reader, or an index out of range.
    pub fn worker(
        &self,
        index: u32,
        generation: u32,
    ) -> Result<executor_core::pool::Worker<'static>, AttachError> {
        match self.role {
            Role::Member(slot) => self.worker_of(slot, index, generation),
            Role::Supervisor | Role::Reader => Err(AttachError::Slot),
        }
    }

    /// Worker `index` of one of this process's slots, generation `generation`.
    ///
    /// # Errors
    /// [`AttachError::Slot`] for a slot that is not this process's, or an index out of range.
    pub fn worker_of(
        &self,
        slot: SlotId,
        index: u32,
        generation: u32,
    ) -> Result<executor_core::pool::Worker<'static>, AttachError> {
        if self.slots().any(|own| own == slot) {
            return executor_core::pool::Worker::new(&self.group, slot, index, generation);
        }
        Err(AttachError::Slot)
    }

    /// Every slot of this process.
    pub fn slots(&self) -> impl Iterator<Item = SlotId> {
        let first = match self.role {
            Role::Member(slot) => Some(slot),
            Role::Supervisor | Role::Reader => None,
        };
        first.into_iter().flat_map(|slot| [slot].into_iter().chain(self.also.iter().copied()))
    }

    /// Slot whose partition holds `address`, if it lies in the arena: names the owner after a
    /// fault.
    #[must_use]
    pub fn partition_of(&self, address: usize) -> Option<SlotId> {
        let start = self.arena.as_ptr().addr();
        let offset = u64::try_from(address.checked_sub(start)?).ok()?;
        (0u32..).zip(self.group.memory.slot_descs).find_map(|(slot, desc)| {
            let inside = offset.checked_sub(desc.partition_offset)? < desc.partition_len;
            inside.then_some(SlotId(slot))
        })
    }

    /// Makes the pages of the own partitions present and writable, so that no message of this
    /// process waits for one. The others' come with their first look, 64 KiB at a time: mapping all
    /// of a large arena would delay the start (0.18 ms a MiB) for pages that are mostly never read.
    ///
    /// # Errors
    /// The system refuses, for want of memory.
    pub fn populate_own(&self) -> Result<(), Failure> {
        for slot in self.slots() {
            let desc = self.group.memory.slot_descs.get(slot.0 as usize);
            let Some(desc) = desc.filter(|desc| desc.partition_len != 0) else { continue };
            let (at, len) = (to_len(desc.partition_offset)?, to_len(desc.partition_len)?);
            // Pages that are there already come 16 at a time when they are read, and one by one
            // when they are written; a shared page is writable either way.
            self.arena.populate_read(at, len)?;
            self.arena.populate_write(at, len)?;
        }
        Ok(())
    }

    /// Gives the memory back; the addresses stay reserved, so a late access faults instead of
    /// hitting something else. For a host that goes on living after its session.
    ///
    /// # Errors
    /// The system refuses.
    pub fn retire(&self) -> Result<(), SysError> {
        self.control.vacate()?;
        self.arena.vacate()
    }
}
