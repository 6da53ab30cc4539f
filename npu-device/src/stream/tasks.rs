//! What can be submitted to a stream. Every call gives the task's number.

use crate::codes::{
    CAPTURE_MODE_BLOCK_ASYNC, PARAM_INVALID, Result, STREAM_CONTEXT, STREAM_MODEL, refuse,
};
use crate::context::Context;
use crate::event::{Event, EventFlags};
use crate::kernel::Function;
use crate::memory::Memory;
use crate::notify::Notify;
use crate::sqe::{Sqe, kind, task};
use crate::stream::{Core, Stream};

/// When a wait for a value ends: the 64-bit value `v` and the operand `o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WaitValue {
    /// `v >= o`, as signed difference.
    GreaterOrEqual = 0,
    /// `v == o`.
    Equal = 1,
    /// `v & o != 0`.
    And = 2,
    /// `!(v | o) != 0`.
    Nor = 3,
}

impl WaitValue {
    /// The condition of this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::of(u64::from(number))
    }

    pub(crate) fn of(number: u64) -> Option<Self> {
        [Self::GreaterOrEqual, Self::Equal, Self::And, Self::Nor]
            .into_iter()
            .find(|known| u64::from(*known as u8) == number)
    }

    pub(crate) fn holds(self, value: u64, operand: u64) -> bool {
        match self {
            Self::GreaterOrEqual => value.wrapping_sub(operand).cast_signed() >= 0,
            Self::Equal => value == operand,
            Self::And => value & operand != 0,
            Self::Nor => !(value | operand) != 0,
        }
    }
}

/// How a stream's switch compares the 64-bit value `v` with the operand `o`, both signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Compare {
    /// `v == o`.
    Equal = 0,
    /// `v != o`.
    NotEqual = 1,
    /// `v > o`.
    Greater = 2,
    /// `v >= o`.
    GreaterOrEqual = 3,
    /// `v < o`.
    Less = 4,
    /// `v <= o`.
    LessOrEqual = 5,
}

impl Compare {
    pub(crate) fn of(number: u64) -> Option<Self> {
        use Compare::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        [Equal, NotEqual, Greater, GreaterOrEqual, Less, LessOrEqual]
            .into_iter()
            .find(|known| u64::from(*known as u8) == number)
    }

    pub(crate) fn holds(self, value: i64, operand: i64) -> bool {
        match self {
            Self::Equal => value == operand,
            Self::NotEqual => value != operand,
            Self::Greater => value > operand,
            Self::GreaterOrEqual => value >= operand,
            Self::Less => value < operand,
            Self::LessOrEqual => value <= operand,
        }
    }
}

impl Stream {
    pub(crate) fn put(&self, sqe: Sqe) -> Result<u16> {
        self.core.submit(self.context.device(), sqe).map(|placed| placed.task)
    }

    /// Nothing, in its order.
    ///
    /// # Errors
    /// As every submission: 507002 when there is no room, 107023 while the stream is aborted,
    /// 507011 when its model is complete, 207008 when no stream is left to continue it.
    pub fn nop(&self) -> Result<u16> {
        self.put(Sqe::place_holder(task::NOP))
    }

    /// A kernel.
    ///
    /// # Errors
    /// As [`Stream::nop`]; 107000 without blocks.
    pub fn launch(&self, function: &Function, blocks: u16, args: [u64; 4]) -> Result<u16> {
        self.kernel(kind::KERNEL, function, blocks, args)
    }

    /// A kernel of the device's CPU: the same, but its failures have codes of their own.
    ///
    /// # Errors
    /// As [`Stream::launch`].
    pub fn launch_cpu(&self, function: &Function, blocks: u16, args: [u64; 4]) -> Result<u16> {
        self.kernel(kind::AICPU, function, blocks, args)
    }

    fn kernel(&self, kind: u8, function: &Function, blocks: u16, args: [u64; 4]) -> Result<u16> {
        if blocks == 0 {
            return refuse(PARAM_INVALID, "a kernel needs at least one block");
        }
        let mut sqe = Sqe::new(kind);
        sqe.header.block_dim = blocks;
        sqe.payload[0] = function.word();
        sqe.payload[1..5].copy_from_slice(&args);
        self.put(sqe)
    }

    /// A function on the host's thread, never on a core.
    ///
    /// # Errors
    /// As [`Stream::nop`].
    pub fn host_function(&self, function: &Function, args: [u64; 4]) -> Result<u16> {
        let mut sqe = Sqe::place_holder(task::HOST_FUNCTION);
        sqe.payload[0] = function.word();
        sqe.payload[1..5].copy_from_slice(&args);
        self.put(sqe)
    }

    /// Sets a notify.
    ///
    /// # Errors
    /// As [`Stream::nop`].
    pub fn record_notify(&self, notify: &Notify) -> Result<u16> {
        self.put(notify.bit.entry(kind::NOTIFY_RECORD, 0))
    }

    /// Waits until a notify is set, and clears it; `timeout_s` 0 is forever.
    ///
    /// # Errors
    /// As [`Stream::nop`].
    pub fn wait_notify(&self, notify: &Notify, timeout_s: u32) -> Result<u16> {
        notify.bit.expect_wait(self.context.device().streams.live());
        self.put(notify.bit.entry(kind::NOTIFY_WAIT, timeout_s))
    }

    /// Marks an event when everything before is done.
    ///
    /// # Errors
    /// As [`Stream::nop`]; 107000 for an event that a model marks for what is outside it.
    pub fn record_event(&self, event: &Event) -> Result<u16> {
        self.record(&event.marks)
    }

    /// Waits for the event's last record; at once if there was none. A stream that waits for an
    /// event of a capture joins the capture.
    ///
    /// # Errors
    /// As [`Stream::nop`]; 107024 when a captured stream waits for something outside its capture;
    /// 107028 when the event's capture is over; 107031 when the default stream would join.
    pub fn wait_event(&self, event: &Event, timeout_s: u32) -> Result<u16> {
        self.follow(event)?;
        let mark = event.marks.expect_wait(self.context.device().streams.live());
        self.put(event.marks.entry(kind::EVENT_WAIT, mark, timeout_s))
    }

    /// Makes an event as if its records so far had not run.
    ///
    /// # Errors
    /// As [`Stream::nop`]; 107000 for an event without the flag `SYNC`.
    pub fn reset_event(&self, event: &Event) -> Result<u16> {
        if !event.marks.flags.has(EventFlags::SYNC) {
            return refuse(PARAM_INVALID, "only an event with the flag SYNC can be reset");
        }
        let mut sqe = Sqe::place_holder(task::EVENT_RESET);
        sqe.payload[0] = event.marks.word();
        self.put(sqe)
    }

    /// Writes a 64-bit value.
    ///
    /// # Errors
    /// As [`Stream::nop`]; 107000 outside the memory.
    pub fn write_value(&self, memory: &Memory, offset: u32, value: u64) -> Result<u16> {
        self.write_value_at(memory.check(offset, 8)?, value)
    }

    /// Waits for a 64-bit value.
    ///
    /// # Errors
    /// As [`Stream::nop`]; 107000 outside the memory.
    pub fn wait_value(
        &self,
        memory: &Memory,
        offset: u32,
        condition: WaitValue,
        operand: u64,
    ) -> Result<u16> {
        self.wait_value_at(memory.check(offset, 8)?, condition, operand)
    }

    /// Fills memory.
    ///
    /// # Errors
    /// As [`Stream::nop`]; 107000 outside the memory.
    pub fn fill(&self, memory: &Memory, offset: u32, value: u8, bytes: usize) -> Result<u16> {
        self.fill_at(memory.check(offset, bytes)?, value, bytes)
    }

    /// Copies memory; within one piece the ranges may overlap.
    ///
    /// # Errors
    /// As [`Stream::nop`]; 107000 outside a memory.
    pub fn copy(&self, to: (&Memory, u32), from: (&Memory, u32), bytes: usize) -> Result<u16> {
        self.copy_at(to.0.check(to.1, bytes)?, from.0.check(from.1, bytes)?, bytes)
    }

    /// Copies memory of the caller, which it may change when this returns: not before everything
    /// that was submitted is done.
    ///
    /// # Errors
    /// 107000 outside the memory; 107041 when a capture forbids it to this thread; else as
    /// [`Stream::synchronize`].
    pub fn copy_in(&self, to: (&Memory, u32), bytes: &[u8]) -> Result<()> {
        if !self.context.may_bypass_captures() {
            let what = "an asynchronous copy of the caller's memory while a capture forbids it";
            return refuse(CAPTURE_MODE_BLOCK_ASYNC, what);
        }
        to.0.check(to.1, bytes.len())?;
        self.synchronize(None)?;
        to.0.put(to.1, bytes)
    }

    /// Starts another stream of the same model, which then runs from its beginning.
    ///
    /// # Errors
    /// As [`Stream::nop`]; 107005 unless both are bound to one model.
    pub fn activate(&self, other: &Stream) -> Result<u16> {
        self.check_same_model(other)?;
        self.put(activation(&other.core))
    }

    /// The same if a 64-bit value compares with an operand; both streams go on then, and only this
    /// one otherwise.
    ///
    /// # Errors
    /// As [`Stream::activate`]; 107000 outside the memory.
    pub fn activate_if(
        &self,
        value: (&Memory, u32),
        compare: Compare,
        operand: i64,
        other: &Stream,
    ) -> Result<u16> {
        self.check_same_model(other)?;
        let mut sqe = Sqe::place_holder(task::STREAM_SWITCH);
        let (address, target) = (value.0.check(value.1, 8)?, other.core.word());
        let words = [target, address, operand.cast_unsigned(), u64::from(compare as u8)];
        sqe.payload[..4].copy_from_slice(&words);
        self.put(sqe)
    }

    fn check_same_model(&self, other: &Stream) -> Result<()> {
        let one = self.core.graph().zip(other.core.graph());
        if !one.is_some_and(|(own, other)| std::sync::Arc::ptr_eq(&own, &other)) {
            let what = format!("streams {} and {} are not of one model", self.id(), other.id());
            return refuse(STREAM_MODEL, what);
        }
        Ok(())
    }

    pub(crate) fn check_context(&self, context: &Context) -> Result<()> {
        if self.core.context != context.id() {
            return refuse(STREAM_CONTEXT, format!("stream {} is of another context", self.id()));
        }
        Ok(())
    }
}

/// The entry that starts a stream.
pub(crate) fn activation(stream: &Core) -> Sqe {
    let mut sqe = Sqe::place_holder(task::STREAM_ACTIVE);
    sqe.payload[0] = stream.word();
    sqe
}
