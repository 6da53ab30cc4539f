//! Tasks that name memory by its device address: of a [`Memory`](crate::Memory), or of the raw
//! memory that the device was made with. Whether it is there shows when they run.

use crate::codes::Result;
use crate::sqe::{Sqe, kind, task};
use crate::stream::{Stream, WaitValue};

impl Stream {
    /// Writes a 64-bit value.
    ///
    /// # Errors
    /// As [`Stream::nop`].
    pub fn write_value_at(&self, address: u64, value: u64) -> Result<u16> {
        let mut sqe = Sqe::new(kind::WRITE_VALUE);
        sqe.payload[..3].copy_from_slice(&[address, value, 8]);
        self.put(sqe)
    }

    /// Waits for a 64-bit value. Raw memory is looked at every millisecond, since whoever writes
    /// it does not say so.
    ///
    /// # Errors
    /// As [`Stream::nop`].
    pub fn wait_value_at(&self, address: u64, condition: WaitValue, operand: u64) -> Result<u16> {
        let mut sqe = Sqe::place_holder(task::WAIT_VALUE);
        sqe.payload[..3].copy_from_slice(&[address, operand, u64::from(condition as u8)]);
        self.put(sqe)
    }

    /// Fills memory.
    ///
    /// # Errors
    /// As [`Stream::nop`].
    pub fn fill_at(&self, address: u64, value: u8, bytes: usize) -> Result<u16> {
        let mut sqe = Sqe::place_holder(task::MEMSET);
        sqe.payload[..3].copy_from_slice(&[address, u64::from(value), bytes as u64]);
        self.put(sqe)
    }

    /// Copies memory.
    ///
    /// # Errors
    /// As [`Stream::nop`].
    pub fn copy_at(&self, to: u64, from: u64, bytes: usize) -> Result<u16> {
        let mut sqe = Sqe::new(kind::SDMA);
        sqe.payload[..3].copy_from_slice(&[to, from, bytes as u64]);
        self.put(sqe)
    }
}
