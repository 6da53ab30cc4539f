//! Who belongs to the memory group (executor-deployer §5, device-runtime §2.5).
//!
//! Memory itself travels by inherited descriptors, and what a process may write follows from its
//! slot. So membership is *advisory*: a word a slot that says which process was added and with
//! which rights, for callers of the specification's verbs and for tools. An administrator writes
//! it; the added process waits for it, which removes the race between fork and attach.
//!
//! ```text
//! SlotShared.member  63 process id 32 | 4 attached | 3 alloc | 2 write | 1 read | 0 admin
//! ```

use executor_core::abi::control::GROUP_NAME_MAX;
use executor_core::error::Code;
use executor_core::owner::SlotId;
use executor_core::primitive::{AtomicU64, Ordering};
use executor_core::region::Memory;

use super::manage::kick_slot;
use super::{Limit, Refused, Result};
use crate::attach::Attached;
use crate::waiter::{Waited, Waiter};

/// Groups a process query reports at most (device-runtime §2.5).
pub const QUERY_MAX: usize = 1024;

/// Rights of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShareAttr {
    /// May add processes.
    pub admin: bool,
    /// May read.
    pub read: bool,
    /// May read and write.
    pub write: bool,
    /// May allocate, read and write.
    pub alloc: bool,
}

impl ShareAttr {
    /// Everything: the creator of a group.
    pub const ALL: ShareAttr = ShareAttr { admin: true, read: true, write: true, alloc: true };
    /// What an executor gets: all but `admin`.
    pub const MEMBER: ShareAttr = ShareAttr { admin: false, ..ShareAttr::ALL };

    fn bits(self) -> u64 {
        let write = self.write || self.alloc;
        let read = self.read || write;
        [self.admin, read, write, self.alloc]
            .into_iter()
            .zip(0..)
            .fold(0, |bits, (set, at)| bits | u64::from(set) << at)
    }

    fn from_bits(bits: u64) -> ShareAttr {
        let at = |bit: u32| bits & 1 << bit != 0;
        ShareAttr { admin: at(0), read: at(1), write: at(2), alloc: at(3) }
    }
}

const ATTACHED: u64 = 1 << 4;

/// One member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its slot.
    pub slot: SlotId,
    /// Process id, as the administrator sees it.
    pub pid: u32,
    /// Its rights.
    pub rights: ShareAttr,
    /// It has attached.
    pub attached: bool,
}

/// A range of addresses of the group in this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AddressRange {
    /// First byte.
    pub start: usize,
    /// Bytes.
    pub len: u64,
}

/// Where [`Members::query`] writes its answer; `None` is a null pointer.
#[derive(Debug, Default)]
pub struct QueryOutput<'a> {
    /// For command 1: rights of the process in each of its groups.
    pub groups: Option<&'a mut [ShareAttr]>,
    /// For command 2: number of the group.
    pub group_id: Option<&'a mut u32>,
    /// For command 3: the memory of the group.
    pub ranges: Option<&'a mut [AddressRange]>,
}

/// The membership verbs of one process.
#[derive(Clone, Copy, Debug)]
pub struct Members {
    attached: &'static Attached,
    memory: Memory<'static>,
    waiter: Waiter<'static>,
}

fn refused(code: Code, why: &'static str) -> Refused {
    Refused::new(code, None, why)
}

impl Members {
    /// The verbs over the group that this process is attached to, and the waiter of this thread.
    #[must_use]
    pub fn new(attached: &'static Attached, waiter: Waiter<'static>) -> Members {
        Members { attached, memory: attached.group.memory, waiter }
    }

    fn word(&self, slot: SlotId) -> Option<&'static AtomicU64> {
        self.memory.slot_shared.get(slot.0 as usize).map(|shared| &shared.member)
    }

    /// Every member.
    pub fn iter(&self) -> impl Iterator<Item = Member> + use<> {
        let rows = (0u32..).zip(self.memory.slot_shared);
        rows.filter_map(|(slot, shared)| {
            decode(SlotId(slot), shared.member.load(Ordering::Acquire))
        })
    }

    fn check_name(&self, name: &str) -> Result<()> {
        if name.len() > GROUP_NAME_MAX {
            return Err(refused(Code::INVALID_VALUE, "a group name has at most 31 bytes"));
        }
        if name != self.attached.name() {
            return Err(refused(Code::INVALID_VALUE, "the group has another name"));
        }
        Ok(())
    }

    /// `rtMemGrpCreate` after the group's memory was made: this process becomes its first member,
    /// with all rights, and attached.
    ///
    /// # Errors
    /// `REPEATED_INIT` when the group has members; `INVALID_VALUE` for another or a too long name.
    pub fn create(&self, name: &str, pid: u32) -> Result<()> {
        self.check_name(name)?;
        if self.iter().next().is_some() {
            return Err(refused(Code::REPEATED_INIT, "the group has members already"));
        }
        self.write_member(self.waiter.slot(), pid, ShareAttr::ALL.bits() | ATTACHED)
    }

    /// `rtMemGrpAddProc`: adds process `pid`, which lives (or will live) in `slot`, and wakes it if
    /// it waits.
    ///
    /// # Errors
    /// `OPER_NOT_PERMITTED` unless this process is an administrator; `REPEATED_INIT` for a process
    /// that is a member; `OVER_LIMIT` for a slot that another process has; `INVALID_VALUE` for a
    /// bad name, pid 0 or a slot out of range.
    pub fn add_process(&self, name: &str, slot: SlotId, pid: u32, rights: ShareAttr) -> Result<()> {
        self.check_name(name)?;
        let me = self.iter().find(|member| member.slot == self.waiter.slot());
        if !me.is_some_and(|me| me.rights.admin) {
            return Err(refused(Code::OPER_NOT_PERMITTED, "only an administrator adds processes"));
        }
        if self.iter().any(|member| member.pid == pid) {
            return Err(refused(Code::REPEATED_INIT, "the process is a member already"));
        }
        self.write_member(slot, pid, rights.bits())?;
        kick_slot(&self.memory, slot);
        Ok(())
    }

    /// Takes a process that ended out of the group, so that its successor can be added.
    ///
    /// # Errors
    /// `INVALID_VALUE` when it is no member.
    pub fn remove_process(&self, pid: u32) -> Result<()> {
        let member = self.iter().find(|member| member.pid == pid);
        let word = member.and_then(|member| self.word(member.slot));
        let word = word.ok_or(refused(Code::INVALID_VALUE, "the process is not a member"))?;
        word.store(0, Ordering::Release);
        Ok(())
    }

    fn write_member(&self, slot: SlotId, pid: u32, bits: u64) -> Result<()> {
        let word = self.word(slot).filter(|_| pid != 0);
        let word = word.ok_or(refused(Code::INVALID_VALUE, "no such slot, or process id 0"))?;
        let new = u64::from(pid) << 32 | bits;
        match word.compare_exchange(0, new, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => Err(refused(Code::OVER_LIMIT, "another process has this slot")),
        }
    }

    /// `rtMemGrpAttach`: waits until this slot's process was added; its rights.
    ///
    /// # Errors
    /// `REPORT_TIMEOUT` when nobody added it in time; `INVALID_VALUE` for another or a too long
    /// name.
    pub fn attach(&self, name: &str, timeout_ms: i32) -> Result<ShareAttr> {
        self.check_name(name)?;
        let limit = Limit::from_ms(timeout_ms);
        let slot = self.waiter.slot();
        let word = self.word(slot).ok_or(refused(Code::INVALID_VALUE, "no such slot"))?;
        let mut added = || word.load(Ordering::Acquire) != 0;
        while !added() {
            let waited = self.waiter.wait(limit.deadline(), || {}, &mut added);
            if waited == Waited::TimedOut || limit.is_over() && !added() {
                return Err(refused(Code::REPORT_TIMEOUT, "nobody added this process in time"));
            }
        }
        let word = word.fetch_or(ATTACHED, Ordering::AcqRel);
        Ok(ShareAttr::from_bits(word))
    }

    /// `rtMemGrpQuery`. Command 1: groups of process `pid`, their number, and as many rights as
    /// `groups` holds; 2: number of the group; 3: its memory in this process. The number of
    /// results.
    ///
    /// # Errors
    /// `FEATURE_NOT_SUPPORT` for commands 0 and from 4 on; `INVALID_VALUE` for command 2 without a
    /// result and command 3 without room.
    pub fn query(&self, command: u32, pid: u32, output: &mut QueryOutput<'_>) -> Result<usize> {
        match command {
            1 => {
                let found = self.iter().filter(|member| member.pid == pid).take(QUERY_MAX);
                let mut count = 0;
                for member in found {
                    if let Some(to) = output.groups.as_deref_mut().and_then(|g| g.get_mut(count)) {
                        *to = member.rights;
                    }
                    count += 1;
                }
                match output.groups.as_deref() {
                    Some(groups) if !groups.is_empty() => Ok(count.min(groups.len())),
                    _ => Ok(count),
                }
            }
            2 => match output.group_id.as_deref_mut() {
                Some(id) => {
                    *id = 0;
                    Ok(1)
                }
                None => Err(refused(Code::INVALID_VALUE, "the number of the group has no place")),
            },
            3 => match output.ranges.as_deref_mut().and_then(<[AddressRange]>::first_mut) {
                Some(range) => {
                    let arena = self.memory.arena_span();
                    *range = AddressRange { start: arena.pointer.addr().get(), len: arena.len };
                    Ok(1)
                }
                None => Err(refused(Code::INVALID_VALUE, "the address range has no place")),
            },
            _ => Err(refused(Code::FEATURE_NOT_SUPPORT, "expected query command 1, 2 or 3")),
        }
    }
}

fn decode(slot: SlotId, word: u64) -> Option<Member> {
    let pid = u32::try_from(word >> 32).ok().filter(|pid| *pid != 0)?;
    let (rights, attached) = (ShareAttr::from_bits(word), word & ATTACHED != 0);
    Some(Member { slot, pid, rights, attached })
}

#[cfg(test)]
mod tests {
    use super::ShareAttr;

    #[test]
    fn higher_rights_imply_lower_ones() {
        let alloc = ShareAttr { alloc: true, ..ShareAttr::default() };
        let implied = ShareAttr::from_bits(alloc.bits());
        assert_eq!(implied, ShareAttr::MEMBER);
        let write = ShareAttr { write: true, ..ShareAttr::default() };
        let both = ShareAttr { read: true, write: true, ..ShareAttr::default() };
        assert_eq!(ShareAttr::from_bits(write.bits()), both);
        assert_eq!(ShareAttr::from_bits(ShareAttr::ALL.bits()), ShareAttr::ALL);
    }
}
