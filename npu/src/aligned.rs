//! Bytes at an address that is a multiple of 64: what programs, weights and arenas need.

use std::collections::TryReserveError;
use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::cast::{Block, bytes_of, bytes_of_mut};

/// Alignment in bytes of programs, arenas, inputs and outputs, and of every tensor in them.
pub const ALIGNMENT: usize = 64;

/// The next multiple of [`ALIGNMENT`]; saturates.
#[must_use]
pub const fn align_up(bytes: usize) -> usize {
    bytes.saturating_add(ALIGNMENT - 1) & !(ALIGNMENT - 1)
}

/// Whether memory begins at a multiple of [`ALIGNMENT`]. Empty memory does.
#[must_use]
pub fn is_aligned(bytes: &[u8]) -> bool {
    bytes.is_empty() || bytes.as_ptr().addr().is_multiple_of(ALIGNMENT)
}

/// A fixed number of bytes on the heap, aligned to [`ALIGNMENT`].
#[derive(Clone, Default)]
pub struct AlignedBytes {
    blocks: Vec<Block>,
    size: usize,
}

impl AlignedBytes {
    /// `size` zero bytes.
    #[must_use]
    pub fn zeroed(size: usize) -> Self {
        Self { blocks: vec![Block([0; ALIGNMENT]); size.div_ceil(ALIGNMENT)], size }
    }

    /// `size` zero bytes, where memory for as many as a file says may be refused.
    ///
    /// # Errors
    /// The system does not give so much.
    pub fn try_zeroed(size: usize) -> Result<Self, TryReserveError> {
        let (mut blocks, count) = (Vec::new(), size.div_ceil(ALIGNMENT));
        blocks.try_reserve_exact(count)?;
        blocks.resize(count, Block([0; ALIGNMENT]));
        Ok(Self { blocks, size })
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.copy_from_slice(bytes);
        copy
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytes_of(&self.blocks)[..self.size]
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytes_of_mut(&mut self.blocks)[..self.size]
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBytes({} bytes)", self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_aligned_and_zero() {
        for size in [0, 1, 63, 64, 65, 1000] {
            let bytes = AlignedBytes::zeroed(size);
            assert_eq!(bytes.len(), size);
            assert!(is_aligned(&bytes) && bytes.iter().all(|byte| *byte == 0));
            assert_eq!(AlignedBytes::try_zeroed(size).unwrap()[..], bytes[..]);
        }
        // More than an address space has.
        assert!(AlignedBytes::try_zeroed(1 << 62).is_err());
        assert_eq!(AlignedBytes::copy_of(b"abc").as_ref(), b"abc");
        assert!(!is_aligned(&AlignedBytes::zeroed(64)[1..]));
        assert_eq!((align_up(0), align_up(1), align_up(64)), (0, 64, 64));
        assert_eq!(align_up(usize::MAX) % ALIGNMENT, 0);
    }
}
