//! Bytes of a memory file that can never change: mapped once, read as a slice.
#![allow(unsafe_code, reason = "a slice over a mapping of sealed pages")]

use std::os::fd::BorrowedFd;

use crate::errno::{Errno, Result, SysError};
use crate::mapping::{Access, Mapping};
use crate::memfd;

/// The whole content of a sealed memory file, read-only, at a page's beginning.
#[derive(Debug)]
pub struct SealedBytes {
    /// `None` for an empty file.
    mapping: Option<Mapping>,
}

impl SealedBytes {
    /// Maps a memory file whose content and size are sealed, so that nobody can change a byte or
    /// cut it short under the reader.
    ///
    /// # Errors
    /// `EINVAL`: not a memory file, or not sealed against writes, growth and shrinking; else as
    /// [`Mapping::shared`].
    ///
    /// # References
    /// F_GET_SEALS(2const), mmap(2)
    pub fn map(fd: BorrowedFd<'_>) -> Result<Self> {
        if !memfd::is_content_sealed(fd)? {
            return Err(SysError::new("fcntl(F_GET_SEALS)", Errno::INVAL));
        }
        let len = usize::try_from(memfd::len(fd)?);
        let len = len.map_err(|_| SysError::new("mmap", Errno::NOMEM))?;
        let map = || Mapping::shared(fd, len, Access::Read);
        Ok(Self { mapping: (len != 0).then(map).transpose()? })
    }
}

impl AsRef<[u8]> for SealedBytes {
    fn as_ref(&self) -> &[u8] {
        let Some(mapping) = &self.mapping else { return &[] };
        // SAFETY:
        // - the mapping is readable and that long, and lives as long as `self`;
        // - the file can't shrink (sealed), so every page is there;
        // - nobody can write to it: the seal forbids it from before the mapping was made.
        unsafe { core::slice::from_raw_parts(mapping.as_ptr(), mapping.len()) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn only_sealed_content_is_mapped() {
        let fd = memfd::from_bytes("sealed", b"content").expect("memfd");
        let bytes = SealedBytes::map(fd.as_fd()).expect("map");
        drop(fd);
        assert_eq!(bytes.as_ref(), b"content");
        let empty = memfd::from_bytes("empty", b"").expect("memfd");
        assert_eq!(SealedBytes::map(empty.as_fd()).expect("map").as_ref(), b"");
        let open = memfd::create("open", 64).expect("memfd");
        let refused = |fd: BorrowedFd<'_>| SealedBytes::map(fd).expect_err("refused").errno;
        assert_eq!(refused(open.as_fd()), Errno::INVAL);
        memfd::seal_size(&open).expect("seal");
        assert_eq!(refused(open.as_fd()), Errno::INVAL, "its content can change");
        let file = std::fs::File::open("/proc/self/exe").expect("file");
        assert_eq!(refused(file.as_fd()), Errno::INVAL);
    }
}
