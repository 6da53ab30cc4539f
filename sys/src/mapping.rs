//! Shared mappings of memory files.
//!
//! A [`Mapping`] owns a range of addresses and hands out a raw pointer only: what may be read or
//! written behind it is the concern of the caller's own protocol. It is not a slice, because a peer
//! may write the bytes at any moment.
//!
//! ```text
//! base                offset                                     base + len
//!  | shared(Read) ....  | overlay(ReadWrite) ... | shared(Read) ... |
//! ```
#![allow(unsafe_code, reason = "mmap, madvise, mlock, munmap")]

use core::ptr::{self, NonNull};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::errno::{Errno, Result, SysError, check};

/// What the mapping's own process may do with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads only; a store raises SIGSEGV.
    Read,
    /// Loads and stores.
    ReadWrite,
}

impl Access {
    const fn protection(self) -> i32 {
        match self {
            Self::Read => libc::PROT_READ,
            Self::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// A range of shared memory, unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the range belongs to the process, not to a thread, and `base` and `len` never change.
unsafe impl Send for Mapping {}
// SAFETY: methods on `&self` are system calls that the kernel serialises; the bytes are reached
// only through the raw pointer, whose user answers for races.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `void *mmap(NULL, size_t length, int prot, MAP_SHARED, int fd, 0);`
    ///
    /// Maps the first `len` bytes of `fd`. Pages appear at first touch.
    ///
    /// # Errors
    /// `EINVAL`: `len` is zero; `EACCES`: the descriptor does not permit the access; `EPERM`: the
    /// content is sealed; `ENOMEM`: no address space or too many mappings.
    ///
    /// # References
    /// mmap(2)
    pub fn shared(fd: BorrowedFd<'_>, len: usize, access: Access) -> Result<Self> {
        let protection = access.protection();
        // SAFETY: the kernel chooses unused addresses, so no existing memory is affected.
        let address = unsafe {
            libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(SysError::last("mmap"));
        }
        let base = NonNull::new(address.cast()).ok_or(SysError::new("mmap", Errno::NOMEM))?;
        Ok(Self { base, len })
    }

    /// `void *mmap(void *addr, size_t len, int prot, MAP_SHARED | MAP_FIXED, int fd, off_t off);`
    ///
    /// Replaces the part `offset .. offset + len` by the same part of `fd`, with its own access.
    /// The part must be whole pages inside this mapping.
    ///
    /// # Errors
    /// `EINVAL`: the part is empty, not page-aligned, or not inside; else as [`Mapping::shared`].
    /// On an error the old part is still mapped, or, for `ENOMEM` only, unmapped.
    ///
    /// # References
    /// mmap(2)
    pub fn overlay(&self, fd: impl AsFd, offset: usize, len: usize, access: Access) -> Result<()> {
        let address = self.whole_pages("mmap", offset, len)?;
        let file_offset =
            i64::try_from(offset).map_err(|_| SysError::new("mmap", Errno::OVERFLOW))?;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let raw = fd.as_fd().as_raw_fd();
        // SAFETY: `whole_pages` checked that the replaced range is inside this mapping, which owns
        // it.
        let mapped = unsafe {
            libc::mmap(address.cast(), len, access.protection(), flags, raw, file_offset)
        };
        if mapped == libc::MAP_FAILED { Err(SysError::last("mmap")) } else { Ok(()) }
    }

    /// `int madvise(void *addr, size_t length, MADV_POPULATE_WRITE);`
    ///
    /// Makes the pages of a part present and writable now, so that no later store faults.
    ///
    /// # Errors
    /// `EINVAL`: the part is not whole pages inside, or read-only; `EFAULT`: a page lies behind the
    /// file's end; `ENOMEM`: out of memory.
    ///
    /// # References
    /// madvise(2)
    pub fn populate_write(&self, offset: usize, len: usize) -> Result<()> {
        self.advise("madvise(MADV_POPULATE_WRITE)", offset, len, libc::MADV_POPULATE_WRITE)
    }

    /// `int madvise(void *addr, size_t length, MADV_POPULATE_READ);`
    ///
    /// Makes the pages of a part present for loads.
    ///
    /// # Errors
    /// As [`Mapping::populate_write`].
    ///
    /// # References
    /// madvise(2)
    pub fn populate_read(&self, offset: usize, len: usize) -> Result<()> {
        self.advise("madvise(MADV_POPULATE_READ)", offset, len, libc::MADV_POPULATE_READ)
    }

    /// `int madvise(void *addr, size_t length, MADV_DONTFORK);` for the whole mapping.
    ///
    /// A forked child does not have the mapping.
    ///
    /// # Errors
    /// As madvise.
    ///
    /// # References
    /// madvise(2)
    pub fn dont_fork(&self) -> Result<()> {
        self.advise("madvise(MADV_DONTFORK)", 0, self.len, libc::MADV_DONTFORK)
    }

    /// `int madvise(void *addr, size_t length, MADV_HUGEPAGE);`
    ///
    /// Asks for huge pages where the kernel's setting for shared memory permits them; no promise.
    ///
    /// # Errors
    /// `EINVAL`: the part is not whole pages inside, or the kernel has no transparent huge pages.
    ///
    /// # References
    /// madvise(2)
    pub fn huge_pages(&self, offset: usize, len: usize) -> Result<()> {
        self.advise("madvise(MADV_HUGEPAGE)", offset, len, libc::MADV_HUGEPAGE)
    }

    /// `int mlock(const void *addr, size_t len);`
    ///
    /// Makes the part present and keeps it from being swapped out.
    ///
    /// # Errors
    /// `ENOMEM`: beyond `RLIMIT_MEMLOCK`; `EPERM`: the limit is zero; `EINVAL`: not whole pages
    /// inside.
    ///
    /// # References
    /// mlock(2)
    pub fn lock(&self, offset: usize, len: usize) -> Result<()> {
        let address = self.whole_pages("mlock", offset, len)?;
        // SAFETY: the range is inside this mapping; locking changes no byte.
        check("mlock", unsafe { libc::mlock(address.cast(), len) }).map(drop)
    }

    /// First byte of the mapping, page-aligned; valid while the mapping lives.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Size in bytes, as given at creation.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "the kernel refuses empty mappings")]
    pub const fn len(&self) -> usize {
        self.len
    }

    fn advise(&self, call: &'static str, offset: usize, len: usize, advice: i32) -> Result<()> {
        let address = self.whole_pages(call, offset, len)?;
        // SAFETY: the range is inside this mapping, and none of the advices used here changes a
        // byte.
        check(call, unsafe { libc::madvise(address.cast(), len, advice) }).map(drop)
    }

    /// Address of a part, after a check that it is not empty, page-aligned and inside. The end may
    /// be unaligned where it is the mapping's own end.
    fn whole_pages(&self, call: &'static str, offset: usize, len: usize) -> Result<*mut u8> {
        let page = page_size();
        let inside = offset.checked_add(len).filter(|&end| end <= self.len);
        let aligned = inside.is_some_and(|end| end.is_multiple_of(page) || end == self.len);
        if len == 0 || !offset.is_multiple_of(page) || !aligned {
            return Err(SysError::new(call, Errno::INVAL));
        }
        // SAFETY: `offset` is below `self.len`, so the result stays inside the mapping.
        Ok(unsafe { self.base.as_ptr().add(offset) })
    }
}

impl Mapping {
    /// `void *mmap(void *addr, size_t len, PROT_NONE, MAP_ANONYMOUS | MAP_FIXED | …, -1, 0);`
    ///
    /// Gives the memory back and keeps the addresses reserved: later accesses fault.
    ///
    /// # References
    /// mmap(2)
    ///
    /// # Errors
    /// ENOMEM when the process is out of map entries.
    pub fn vacate(&self) -> Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: replaces exactly the range this value owns; references into it stay addresses
        // that fault, they never reach another object.
        let result = unsafe {
            libc::mmap(self.base.as_ptr().cast(), self.len, libc::PROT_NONE, flags, -1, 0)
        };
        if result == libc::MAP_FAILED { Err(SysError::last("mmap")) } else { Ok(()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `shared`, is owned by `self`, and nobody holds a
        // reference derived from it past the owner's life (contract of `as_ptr`).
        let result = unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert_eq!(result, 0, "munmap of an owned range fails only when out of map entries");
    }
}

/// `long sysconf(_SC_PAGESIZE);`: bytes per page, a power of two.
///
/// # References
/// sysconf(3)
#[must_use]
pub fn page_size() -> usize {
    // SAFETY: a query without arguments in memory.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::memfd;

    fn file(pages: usize) -> (OwnedFd, usize) {
        let len = pages * page_size();
        (memfd::create("mapping-test", len as u64).expect("memfd"), len)
    }

    fn read(mapping: &Mapping, offset: usize) -> u8 {
        assert!(offset < mapping.len());
        let byte = mapping.as_ptr().wrapping_add(offset);
        // SAFETY: inside the mapping; nobody writes while a test reads.
        unsafe { byte.read_volatile() }
    }

    fn write(mapping: &Mapping, offset: usize, byte: u8) {
        assert!(offset < mapping.len());
        let target = mapping.as_ptr().wrapping_add(offset);
        // SAFETY: inside the mapping, at a part the test mapped writable.
        unsafe { target.write_volatile(byte) };
    }

    #[test]
    fn two_mappings_show_the_same_bytes() {
        let (fd, len) = file(1);
        let one = Mapping::shared(fd.as_fd(), len, Access::ReadWrite).expect("map");
        let two = Mapping::shared(fd.as_fd(), len, Access::Read).expect("map");
        write(&one, len - 1, 9);
        assert_eq!(read(&two, len - 1), 9);
        assert_eq!((one.len(), two.len()), (len, len));
        assert_eq!(one.as_ptr().addr() % page_size(), 0);
    }

    #[test]
    fn an_overlay_makes_a_part_writable() {
        let (fd, len) = file(4);
        let page = page_size();
        let whole = Mapping::shared(fd.as_fd(), len, Access::Read).expect("map");
        assert_eq!(whole.populate_write(0, page).expect_err("read-only").errno, Errno::INVAL);
        whole.overlay(&fd, page, 2 * page, Access::ReadWrite).expect("overlay");
        whole.populate_write(page, 2 * page).expect("populate");
        write(&whole, page, 5);
        assert_eq!(memfd::read_all(&fd).expect("read")[page], 5);
        whole.overlay(&fd, page, page, Access::Read).expect("overlay");
        assert_eq!(whole.populate_write(page, page).expect_err("again ro").errno, Errno::INVAL);
        assert_eq!(read(&whole, page), 5);
    }

    #[test]
    fn parts_outside_or_unaligned_are_refused() {
        let (fd, len) = file(2);
        let page = page_size();
        let map = Mapping::shared(fd.as_fd(), len, Access::ReadWrite).expect("map");
        for (offset, size) in
            [(0, 0), (1, page), (0, page - 1), (page, 2 * page), (usize::MAX, 2), (len, page)]
        {
            let error = map.overlay(&fd, offset, size, Access::Read).expect_err("refused");
            assert_eq!(error, SysError::new("mmap", Errno::INVAL), "{offset} {size}");
            assert_eq!(map.lock(offset, size).expect_err("refused").errno, Errno::INVAL);
            assert_eq!(map.populate_read(offset, size).expect_err("refused").errno, Errno::INVAL);
        }
    }

    #[test]
    fn populating_takes_memory_before_the_first_touch() {
        let (fd, len) = file(8);
        let map = Mapping::shared(fd.as_fd(), len, Access::ReadWrite).expect("map");
        assert_eq!(memfd::resident(&fd), Ok(0));
        map.populate_write(0, len / 2).expect("populate");
        assert_eq!(memfd::resident(&fd), Ok(len as u64 / 2));
        map.populate_read(0, len).expect("populate");
        map.lock(0, page_size()).expect("lock");
        map.dont_fork().expect("advise");
    }

    #[test]
    fn errors_of_the_kernel_come_through() {
        let (fd, len) = file(1);
        let zero = Mapping::shared(fd.as_fd(), 0, Access::Read).expect_err("empty");
        assert_eq!(zero, SysError::new("mmap", Errno::INVAL));
        let sealed = memfd::from_bytes("sealed", &vec![1; len]).expect("memfd");
        let error = Mapping::shared(sealed.as_fd(), len, Access::ReadWrite).expect_err("sealed");
        assert_eq!(error.errno, Errno::PERM);
        Mapping::shared(sealed.as_fd(), len, Access::Read).expect("sealed content can be read");
        let short = Mapping::shared(fd.as_fd(), 2 * len, Access::Read).expect("map");
        assert_eq!(short.populate_read(len, len).expect_err("behind the end").errno, Errno::FAULT);
    }

    #[test]
    fn a_sparse_mapping_of_64_gib_is_cheap() {
        let len = 64 << 30;
        let fd = memfd::create("sparse", len).expect("memfd");
        let map = Mapping::shared(fd.as_fd(), 64 << 30, Access::Read).expect("map");
        assert_eq!(read(&map, (64 << 30) - 1), 0);
    }
}
