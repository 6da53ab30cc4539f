//! Memory of the device, which is memory of this process. Tasks name it by a device address, which
//! is looked up when they run; what is gone by then is a fault of the task.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use npu::aligned::AlignedBytes;

use crate::codes::{Error, MEMORY_ALLOCATION, PARAM_INVALID, Result, refuse};
use crate::context::Context;
use crate::device::Inner;
use crate::table::Name;

/// Pieces of memory a device has.
pub(crate) const MEMORIES_MAX: u32 = 1 << 16;

/// First byte of every device address: `0xD0`, then 8 bits of the number's turn, 16 of the number,
/// 32 of offset.
const TAG: u64 = 0xD0;

/// Bytes of one piece, at most.
pub(crate) const BYTES_MAX: usize = 1 << 32;

/// Memory that is not this crate's, by address: what a C program has. Every call says whether the
/// memory is there. Addresses never begin with the byte `0xD0`.
pub trait RawMemory: std::fmt::Debug + Send + Sync {
    /// The value of `bytes` (at most 8) bytes.
    fn load(&self, address: u64, bytes: usize) -> Option<u64>;
    /// Writes the low `bytes` (at most 8) bytes of a value.
    fn store(&self, address: u64, value: u64, bytes: usize) -> Option<()>;
    /// Fills memory.
    fn fill(&self, address: u64, value: u8, bytes: usize) -> Option<()>;
    /// Copies memory; the ranges may overlap.
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Option<()>;
}

/// Whether an address is of a [`Memory`].
pub(crate) fn is_own(address: u64) -> bool {
    address >> 56 == TAG
}

/// What tasks know of a piece of memory.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) id: u32,
    turn: u32,
    size: usize,
    bytes: RwLock<AlignedBytes>,
}

impl Piece {
    pub(crate) fn held(&self) -> RwLockReadGuard<'_, AlignedBytes> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn held_to_write(&self) -> RwLockWriteGuard<'_, AlignedBytes> {
        self.bytes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A piece of the device's memory. It is there until [`Memory::free`].
#[derive(Clone, Debug)]
pub struct Memory {
    piece: Arc<Piece>,
    context: Context,
}

impl Memory {
    pub(crate) fn allocate(context: &Context, size: usize) -> Result<Self> {
        if size == 0 || size > BYTES_MAX {
            return refuse(PARAM_INVALID, format!("{size} bytes of memory: 1 to {BYTES_MAX}"));
        }
        let used = || format!("{size} bytes of memory: the device has no more");
        let bytes =
            AlignedBytes::try_zeroed(size).map_err(|_| Error::new(MEMORY_ALLOCATION, used()))?;
        let make = |Name { id, turn }| Piece { id, turn, size, bytes: RwLock::new(bytes) };
        let piece = context.device().memories.insert(make);
        let piece = piece.ok_or_else(|| Error::new(MEMORY_ALLOCATION, used()))?;
        Ok(Self { piece, context: context.clone() })
    }

    /// Bytes of it.
    #[must_use]
    pub fn size(&self) -> usize {
        self.piece.size
    }

    /// The device address of a byte of it.
    #[must_use]
    pub fn address(&self, offset: u32) -> u64 {
        let Piece { id, turn, .. } = *self.piece;
        TAG << 56 | u64::from(turn & 0xFF) << 48 | u64::from(id) << 32 | u64::from(offset)
    }

    /// Reads it on the host, at once. Tasks that write it wait meanwhile.
    pub fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        read(&self.piece.held())
    }

    /// Writes it on the host, at once. Tasks that use it wait meanwhile.
    pub fn write<R>(&self, write: impl FnOnce(&mut [u8]) -> R) -> R {
        let result = write(&mut self.piece.held_to_write());
        self.context.device().values.changed(&self.context.device().sched);
        result
    }

    /// The 64-bit value at an offset.
    ///
    /// # Errors
    /// The offset lies outside.
    pub fn load(&self, offset: u32) -> Result<u64> {
        let value = self.context.device().load(self.address(offset), 8);
        value.map_err(|Outside| outside(offset, 8, self.size()))
    }

    /// Writes the 64-bit value at an offset.
    ///
    /// # Errors
    /// The offset lies outside.
    pub fn store(&self, offset: u32, value: u64) -> Result<()> {
        let done = self.context.device().store(self.address(offset), value, 8);
        done.map_err(|Outside| outside(offset, 8, self.size()))
    }

    /// Ends it; a task that still names it fails.
    pub fn free(self) {
        let name = Name { id: self.piece.id, turn: self.piece.turn };
        self.context.device().memories.remove_named(name.word());
    }

    pub(crate) fn put(&self, offset: u32, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes.len())?;
        self.write(|all| {
            all[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes)
        });
        Ok(())
    }

    pub(crate) fn get(&self, offset: u32, bytes: &mut [u8]) -> Result<()> {
        self.check(offset, bytes.len())?;
        let count = bytes.len();
        self.read(|all| bytes.copy_from_slice(&all[offset as usize..offset as usize + count]));
        Ok(())
    }

    pub(crate) fn piece(&self) -> &Piece {
        &self.piece
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn check(&self, offset: u32, bytes: usize) -> Result<u64> {
        let end = (offset as usize).checked_add(bytes);
        if end.is_none_or(|end| end > self.size()) {
            return Err(outside(offset, bytes, self.size()));
        }
        Ok(self.address(offset))
    }
}

fn outside(offset: u32, bytes: usize, size: usize) -> Error {
    Error::new(PARAM_INVALID, format!("{bytes} bytes at {offset} of a memory of {size} bytes"))
}

/// An address that names no memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outside;

impl Inner {
    fn piece(&self, address: u64) -> std::result::Result<(Arc<Piece>, usize), Outside> {
        let id = u32::try_from(address >> 32 & 0xFFFF).map_err(|_| Outside)?;
        let offset = usize::try_from(address & 0xFFFF_FFFF).map_err(|_| Outside)?;
        if address >> 56 != TAG {
            return Err(Outside);
        }
        let turn = address >> 48 & 0xFF;
        let piece = self.memories.get(id).filter(|piece| u64::from(piece.turn & 0xFF) == turn);
        piece.map(|piece| (piece, offset)).ok_or(Outside)
    }

    /// Whoever has the memory of an address that is not of a [`Memory`].
    fn raw_of(&self, address: u64) -> Option<&dyn RawMemory> {
        self.raw.as_deref().filter(|_| !is_own(address))
    }

    /// The value of `bytes` (at most 8) bytes at an address.
    pub(crate) fn load(&self, address: u64, bytes: usize) -> std::result::Result<u64, Outside> {
        if let Some(raw) = self.raw_of(address) {
            return raw.load(address, bytes).ok_or(Outside);
        }
        let (piece, offset) = self.piece(address)?;
        let held = piece.held();
        let from = held.get(offset..).and_then(|rest| rest.get(..bytes)).ok_or(Outside)?;
        let mut word = [0; 8];
        word.get_mut(..bytes).ok_or(Outside)?.copy_from_slice(from);
        Ok(u64::from_le_bytes(word))
    }

    pub(crate) fn store(
        &self,
        address: u64,
        value: u64,
        bytes: usize,
    ) -> std::result::Result<(), Outside> {
        if let Some(raw) = self.raw_of(address) {
            raw.store(address, value, bytes).ok_or(Outside)?;
            self.values.changed(&self.sched);
            return Ok(());
        }
        let word = value.to_le_bytes();
        let from = word.get(..bytes).ok_or(Outside)?;
        self.write(address, bytes, |to| to.copy_from_slice(from))
    }

    pub(crate) fn fill(
        &self,
        address: u64,
        value: u8,
        bytes: usize,
    ) -> std::result::Result<(), Outside> {
        if let Some(raw) = self.raw_of(address) {
            raw.fill(address, value, bytes).ok_or(Outside)?;
            self.values.changed(&self.sched);
            return Ok(());
        }
        self.write(address, bytes, |to| to.fill(value))
    }

    fn write(
        &self,
        address: u64,
        bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> std::result::Result<(), Outside> {
        let (piece, offset) = self.piece(address)?;
        {
            let mut held = piece.held_to_write();
            let to = held.get_mut(offset..).and_then(|rest| rest.get_mut(..bytes));
            write(to.ok_or(Outside)?);
        }
        self.values.changed(&self.sched);
        Ok(())
    }

    /// Copies; of two pieces the one with the lower number is locked first, so that two copies in
    /// opposite directions do not wait for each other.
    pub(crate) fn copy(
        &self,
        to: u64,
        from: u64,
        bytes: usize,
    ) -> std::result::Result<(), Outside> {
        if let (Some(raw), Some(_)) = (self.raw_of(to), self.raw_of(from)) {
            raw.copy(to, from, bytes).ok_or(Outside)?;
            self.values.changed(&self.sched);
            return Ok(());
        }
        let (target, at) = self.piece(to)?;
        let (source, begin) = self.piece(from)?;
        let end = begin.checked_add(bytes).filter(|end| *end <= source.size).ok_or(Outside)?;
        if at.checked_add(bytes).is_none_or(|end| end > target.size) {
            return Err(Outside);
        }
        if target.id == source.id {
            let mut held = target.held_to_write();
            held.copy_within(begin..end, at);
        } else if target.id < source.id {
            let mut to = target.held_to_write();
            let from = source.held();
            to[at..at + bytes].copy_from_slice(&from[begin..end]);
        } else {
            let from = source.held();
            let mut to = target.held_to_write();
            to[at..at + bytes].copy_from_slice(&from[begin..end]);
        }
        self.values.changed(&self.sched);
        Ok(())
    }
}
