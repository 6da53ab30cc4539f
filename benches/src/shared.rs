//! Words in a memfd that the processes of one measurement share.
//!
//! ```text
//! line      use
//! 4·m       member m: word = go sequence (futex), value = rounds of the block, 0 ends it
//! 4·m + 1   member m: word = 1 once it is set up (futex)
//! 64 + k    free for the measurement
//! ```
//! Lines are 128 bytes apart, so that a processor that fetches lines in pairs shares nothing.

#![allow(unsafe_code, reason = "views a shared mapping as atomics")]
#![allow(clippy::cast_ptr_alignment, reason = "a mapping starts on a page")]

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

use sys::mapping::{Access, Mapping};

use crate::Failure;

/// Lines in the shared memory.
pub const LINES: usize = 128;

/// First line that is free for the measurement.
pub const FREE: usize = 64;

/// Members that have control lines.
pub const MEMBERS: usize = FREE / 4;

/// One line: a futex word and a value, both atomics, alone on their cache line.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Line {
    /// A futex word.
    pub word: AtomicU32,
    /// A number that goes with it.
    pub value: AtomicU64,
}

/// The mapped memory; it is unmapped when dropped.
#[derive(Debug)]
pub struct Shared {
    fd: OwnedFd,
    mapping: Mapping,
}

impl Shared {
    /// Makes zero-filled memory for a new measurement.
    ///
    /// # Errors
    /// The kernel refused the memfd or the mapping.
    pub fn create() -> Result<Self, Failure> {
        let fd = sys::memfd::create("dflow-bench", (LINES * size_of::<Line>()) as u64)?;
        Self::map(fd)
    }

    /// Maps memory that this process inherited as descriptor `number`.
    ///
    /// # Errors
    /// There is no such descriptor, or it is not such a memory.
    pub fn inherited(number: i32) -> Result<Self, Failure> {
        let path = format!("/proc/self/fd/{number}");
        let file: File = OpenOptions::new().read(true).write(true).open(&path)?;
        if file.metadata()?.len() != (LINES * size_of::<Line>()) as u64 {
            return Err(format!("descriptor {number} is not a measurement's memory").into());
        }
        Self::map(file.into())
    }

    fn map(fd: OwnedFd) -> Result<Self, Failure> {
        let mapping = Mapping::shared(fd.as_fd(), LINES * size_of::<Line>(), Access::ReadWrite)?;
        Ok(Self { fd, mapping })
    }

    /// The number under which a child inherits it.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// The descriptor, for spawning.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Line `index`.
    ///
    /// # Panics
    /// The index is not below [`LINES`]: a mistake in the measurement.
    #[must_use]
    pub fn line(&self, index: usize) -> &Line {
        assert!(index < LINES, "line {index} of {LINES}");
        // SAFETY:
        // - the mapping has LINES lines (`map`) and `index` was checked above.
        let line = unsafe { self.mapping.as_ptr().cast::<Line>().add(index) };
        // SAFETY:
        // - the line is mapped as long as `self` lives, and so does the reference;
        // - a mapping starts on a page, so the line is aligned;
        // - a `Line` is atomics only, so writes of other processes are no aliasing violation.
        unsafe { &*line }
    }

    /// The go line of a member.
    #[must_use]
    pub fn go(&self, member: usize) -> &Line {
        assert!(member < MEMBERS, "member {member} of {MEMBERS}");
        self.line(4 * member)
    }

    /// The ready line of a member.
    #[must_use]
    pub fn ready(&self, member: usize) -> &Line {
        assert!(member < MEMBERS, "member {member} of {MEMBERS}");
        self.line(4 * member + 1)
    }
}
