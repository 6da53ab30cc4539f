//! Memory files: named, without a path, closed on exec, sealed once they have their shape.
//!
//! A sealed size is what makes a mapping safe against a peer: nobody can shrink the file under it,
//! so no access inside the mapping can raise SIGBUS for want of a page of the file.
#![allow(unsafe_code, reason = "memfd_create, fcntl seals, fallocate, fstat")]

use core::mem::zeroed;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::errno::{Errno, Result, SysError, check, check_len, retry_on_intr};
use crate::process::file_size_limit;

/// `int memfd_create(const char *name, unsigned int flags);` then `ftruncate`.
///
/// A file of `len` zero bytes, closed on exec, open to seals, never executable. The name, at most
/// 249 bytes, is what `/proc/<pid>/fd` shows as `/memfd:<name>`.
///
/// # Errors
/// `EINVAL`: name too long or with a zero byte; `EFBIG`: `len` too large, or beyond the limit on
/// file sizes (`ulimit -f`), whose signal would end the process; `EMFILE`, `ENOMEM`.
///
/// # References
/// memfd_create(2), ftruncate(2)
pub fn create(name: &str, len: u64) -> Result<OwnedFd> {
    let fd = create_empty(name)?;
    within_limit("ftruncate", len)?;
    let len = i64::try_from(len).map_err(|_| SysError::new("ftruncate", Errno::FBIG))?;
    // SAFETY: `fd` is open; the call touches no memory of ours.
    check("ftruncate", unsafe { libc::ftruncate(fd.as_raw_fd(), len) })?;
    Ok(fd)
}

/// `int fcntl(int fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);`
///
/// Fixes the size for ever; the content stays writable.
///
/// # Errors
/// `EPERM`: already sealed against seals; `EINVAL`: not a memory file.
///
/// # References
/// F_ADD_SEALS(2const)
pub fn seal_size(fd: impl AsFd) -> Result<()> {
    add_seals(fd.as_fd(), libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL)
}

/// `int fcntl(int fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);`
///
/// Fixes size and content for ever.
///
/// # Errors
/// `EBUSY`: a writable mapping exists; `EPERM`: already sealed against seals.
///
/// # References
/// F_ADD_SEALS(2const)
pub fn seal_content(fd: impl AsFd) -> Result<()> {
    let size = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    add_seals(fd.as_fd(), size | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL)
}

/// `int fcntl(int fd, F_GET_SEALS);`: whether nobody can change the size any more.
///
/// # Errors
/// `EINVAL`: not a memory file.
///
/// # References
/// F_GET_SEALS(2const)
pub fn is_size_sealed(fd: impl AsFd) -> Result<bool> {
    has_seals(fd.as_fd(), libc::F_SEAL_SHRINK | libc::F_SEAL_GROW)
}

/// `int fcntl(int fd, F_GET_SEALS);`: whether nobody can change the size or a byte any more.
///
/// # Errors
/// `EINVAL`: not a memory file.
///
/// # References
/// F_GET_SEALS(2const)
pub fn is_content_sealed(fd: impl AsFd) -> Result<bool> {
    has_seals(fd.as_fd(), libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE)
}

fn has_seals(fd: BorrowedFd<'_>, wanted: i32) -> Result<bool> {
    // SAFETY: a query about an open descriptor.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    check("fcntl(F_GET_SEALS)", seals).map(|seals| seals & wanted == wanted)
}

/// `int memfd_create(const char *name, unsigned int flags);` then `write`, then all seals.
///
/// A file that holds exactly `bytes` and can never change; its offset is at the start.
///
/// # Errors
/// As [`create`]; `ENOSPC` or `ENOMEM` when the bytes do not fit in memory.
///
/// # References
/// memfd_create(2), pwrite(2), F_ADD_SEALS(2const)
pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<OwnedFd> {
    let fd = create_empty(name)?;
    within_limit("pwrite", bytes.len() as u64)?;
    let mut done = 0;
    while done < bytes.len() {
        done += retry_on_intr(|| write_at(fd.as_fd(), &bytes[done..], done))?;
    }
    seal_content(&fd)?;
    Ok(fd)
}

/// `ssize_t pread(int fd, void *buf, size_t count, off_t offset);` until the end of the file.
///
/// Everything the file holds now, whatever the descriptor's offset.
///
/// # Errors
/// As `pread`.
///
/// # References
/// pread(2)
pub fn read_all(fd: impl AsFd) -> Result<Vec<u8>> {
    let fd = fd.as_fd();
    let size = usize::try_from(len(fd)?).map_err(|_| SysError::new("pread", Errno::FBIG))?;
    let mut bytes = vec![0; size];
    let mut done = 0;
    while done < size {
        match retry_on_intr(|| read_at(fd, &mut bytes[done..], done))? {
            0 => break,
            count => done += count,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// `int memfd_create(const char *name, unsigned int flags);` then `fcntl(F_SETFL, O_APPEND)`.
///
/// An empty file whose every write goes to its end, so that several writers never overwrite each
/// other. Nobody can seal it later, so a writer cannot stop the others.
///
/// # Errors
/// As [`create`].
///
/// # References
/// memfd_create(2), F_SETFL(2const)
pub fn append_log(name: &str) -> Result<OwnedFd> {
    let fd = create_empty(name)?;
    add_seals(fd.as_fd(), libc::F_SEAL_SEAL)?;
    // SAFETY: sets status flags of a descriptor we own.
    check("fcntl(F_SETFL)", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) })?;
    Ok(fd)
}

/// `int fallocate(int fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t offset, off_t len);`
///
/// Gives the memory of a range back; the range reads as zeroes and the size stays.
///
/// # Errors
/// `EINVAL`: `len` is zero or a number too large; `EPERM`: the content is sealed.
///
/// # References
/// fallocate(2)
pub fn punch_hole(fd: impl AsFd, offset: u64, len: u64) -> Result<()> {
    let invalid = |_| SysError::new("fallocate", Errno::INVAL);
    let offset = i64::try_from(offset).map_err(invalid)?;
    let len = i64::try_from(len).map_err(invalid)?;
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let raw = fd.as_fd().as_raw_fd();
    retry_on_intr(|| {
        // SAFETY: changes the file only; mappings of the range then read zeroes, which every user
        // of a shared mapping has to expect from a peer anyway.
        check("fallocate", unsafe { libc::fallocate(raw, mode, offset, len) }).map(drop)
    })
}

/// `off_t lseek(int fd, off_t offset, SEEK_DATA);`
///
/// Where the first bytes at or after `offset` are that no hole covers; `None` when there are none.
/// Moves the descriptor's offset.
///
/// # Errors
/// `EINVAL`: `offset` too large, or not a file with holes.
///
/// # References
/// lseek(2)
pub fn next_data(fd: impl AsFd, offset: u64) -> Result<Option<u64>> {
    let offset = i64::try_from(offset).map_err(|_| SysError::new("lseek", Errno::INVAL))?;
    // SAFETY: moves the offset of an open descriptor; no memory is passed.
    let found = unsafe { libc::lseek(fd.as_fd().as_raw_fd(), offset, libc::SEEK_DATA) };
    match u64::try_from(found) {
        Ok(found) => Ok(Some(found)),
        Err(_) if Errno::last() == Errno::NXIO => Ok(None),
        Err(_) => Err(SysError::new("lseek", Errno::last())),
    }
}

/// `int fstat(int fd, struct stat *statbuf);`: the size in bytes.
///
/// # Errors
/// `EBADF`, `EOVERFLOW`.
///
/// # References
/// fstat(2)
pub fn len(fd: impl AsFd) -> Result<u64> {
    stat(fd.as_fd()).map(|stat| u64::try_from(stat.st_size).unwrap_or(0))
}

/// `int fstat(int fd, struct stat *statbuf);`: the memory the file occupies now, in bytes.
///
/// # Errors
/// `EBADF`, `EOVERFLOW`.
///
/// # References
/// fstat(2)
pub fn resident(fd: impl AsFd) -> Result<u64> {
    stat(fd.as_fd()).map(|stat| u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512))
}

fn stat(fd: BorrowedFd<'_>) -> Result<libc::stat> {
    // SAFETY: libc::stat is plain integers, for which all zeroes is a value.
    let mut stat: libc::stat = unsafe { zeroed() };
    // SAFETY: `stat` is writable and of the type the call expects.
    check("fstat", unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) })?;
    Ok(stat)
}

/// `EFBIG` instead of a `SIGXFSZ` for what is larger than a file may be.
fn within_limit(call: &'static str, len: u64) -> Result<()> {
    let fits = file_size_limit().is_none_or(|limit| len <= limit);
    if fits { Ok(()) } else { Err(SysError::new(call, Errno::FBIG)) }
}

fn create_empty(name: &str) -> Result<OwnedFd> {
    let name = CString::new(name).map_err(|_| SysError::new("memfd_create", Errno::INVAL))?;
    let base = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let result = match memfd_create(&name, base | libc::MFD_NOEXEC_SEAL) {
        // Before Linux 6.3 the flag is unknown.
        Err(error) if error.errno == Errno::INVAL => memfd_create(&name, base),
        other => other,
    };
    // SAFETY: a fresh descriptor that nothing else owns.
    result.map(|raw| unsafe { OwnedFd::from_raw_fd(raw) })
}

fn memfd_create(name: &CString, flags: libc::c_uint) -> Result<i32> {
    // SAFETY: `name` is a live C string that the kernel copies.
    check("memfd_create", unsafe { libc::memfd_create(name.as_ptr(), flags) })
}

fn add_seals(fd: BorrowedFd<'_>, seals: i32) -> Result<()> {
    // SAFETY: changes the file's seals only.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    check("fcntl(F_ADD_SEALS)", result).map(drop)
}

fn write_at(fd: BorrowedFd<'_>, bytes: &[u8], offset: usize) -> Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| SysError::new("pwrite", Errno::FBIG))?;
    // SAFETY: the pointer and length are those of a live slice.
    let count = unsafe { libc::pwrite(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), offset) };
    check_len("pwrite", count)
}

fn read_at(fd: BorrowedFd<'_>, bytes: &mut [u8], offset: usize) -> Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| SysError::new("pread", Errno::FBIG))?;
    // SAFETY: the pointer and length are those of a live, writable slice.
    let count =
        unsafe { libc::pread(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), offset) };
    check_len("pread", count)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    #[test]
    fn a_created_file_is_zero_and_closed_on_exec() {
        let fd = create("made", 8192).expect("create");
        assert_eq!(len(&fd), Ok(8192));
        assert_eq!(read_all(&fd).expect("read"), vec![0; 8192]);
        // SAFETY: a query about an open descriptor.
        let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).expect("link");
        assert!(link.to_string_lossy().starts_with("/memfd:made"));
    }

    #[test]
    fn a_sealed_size_stays() {
        let fd = create("size", 4096).expect("create");
        assert_eq!(is_size_sealed(&fd), Ok(false));
        seal_size(&fd).expect("seal");
        assert_eq!(is_size_sealed(&fd), Ok(true));
        let mut file = File::from(fd);
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(8192).is_err());
        file.write_all(b"content may change").expect("write");
        assert_eq!(seal_size(&file).expect_err("sealed").errno, Errno::PERM);
    }

    #[test]
    fn sealed_bytes_stay() {
        let fd = from_bytes("bytes", b"plan").expect("create");
        assert_eq!(read_all(&fd).expect("read"), b"plan");
        let mut file = File::from(fd);
        assert!(file.write_all(b"x").is_err());
        assert!(file.set_len(5).is_err());
        let empty = from_bytes("empty", b"").expect("create");
        assert_eq!(read_all(&empty).expect("read"), b"");
    }

    #[test]
    fn a_log_appends_whatever_the_offset() {
        let fd = append_log("log").expect("create");
        let mut file = File::from(fd);
        file.write_all(b"one ").expect("write");
        file.seek(SeekFrom::Start(0)).expect("seek");
        file.write_all(b"two").expect("write");
        assert_eq!(read_all(&file).expect("read"), b"one two");
        assert_eq!(seal_content(&file).expect_err("no seals").errno, Errno::PERM);
    }

    #[test]
    fn a_hole_gives_memory_back_and_keeps_the_size() {
        let fd = append_log("hole").expect("create");
        let mut file = File::from(fd);
        file.write_all(&[7; 16384]).expect("write");
        assert_eq!(resident(&file), Ok(16384));
        punch_hole(&file, 0, 8192).expect("punch");
        assert_eq!(len(&file), Ok(16384));
        assert_eq!(resident(&file), Ok(8192));
        let bytes = read_all(&file).expect("read");
        assert!(bytes[..8192].iter().all(|&byte| byte == 0));
        assert!(bytes[8192..].iter().all(|&byte| byte == 7));
        assert_eq!(next_data(&file, 0), Ok(Some(8192)));
        assert_eq!(next_data(&file, 9000), Ok(Some(9000)));
        assert_eq!(next_data(&file, 16384), Ok(None));
        assert_eq!(punch_hole(&file, 0, 0).expect_err("empty").errno, Errno::INVAL);
        assert_eq!(punch_hole(&file, u64::MAX, 1).expect_err("range").errno, Errno::INVAL);
    }

    #[test]
    fn bad_names_and_sizes_are_errors() {
        assert_eq!(create("a\0b", 1).expect_err("zero byte").errno, Errno::INVAL);
        assert_eq!(create(&"x".repeat(250), 1).expect_err("too long").errno, Errno::INVAL);
        assert_eq!(create("big", u64::MAX).expect_err("too big").errno, Errno::FBIG);
    }
}
