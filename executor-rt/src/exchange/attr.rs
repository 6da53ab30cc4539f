//! What callers pass to the exchange: attributes of a queue, control information, buffers, time
//! limits.

use executor_core::abi::MsgInfo;
use executor_core::abi::head::USER_DATA_SIZE;
use executor_core::owner::SlotId;
use sys::clock::MonoTime;

/// Depth of a queue when an ACL caller names none (device-runtime §2.3).
pub const ACL_DEPTH_DEFAULT: u32 = 8;
/// Buffers that one gather passes on as they are; more are put together first (device-runtime
/// §2.3).
pub const IOVEC_MAX: u32 = 128;

/// When a queue makes empty-to-not-empty events (device-runtime §2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WorkMode {
    /// With every enqueue.
    Push,
    /// When it was empty before.
    #[default]
    Pull,
}

/// How this process reaches a queue (executor-deployer §4.1). There is one memory here, so a client
/// queue is a local one with the rules of the client path for ids and empty buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Deploy {
    /// Mbufs go by reference.
    #[default]
    Local,
    /// Data goes by buffers.
    Client,
}

/// Attributes of a queue to create.
#[derive(Clone, Copy, Debug)]
pub struct QueueAttr {
    /// Most messages of each producer's lane, at least 2.
    pub depth: u32,
    /// When it makes events.
    pub work_mode: WorkMode,
    /// Full: drop the oldest instead of refusing.
    pub overwrite: bool,
    /// Several consumer processes.
    pub shared: bool,
    /// How this process reaches it.
    pub deploy: Deploy,
    /// Slot of the consumer; `None` = the creator's.
    pub consumer: Option<SlotId>,
    /// Waiter of the consumer that producers ring; `None` = the number of the creator's own
    /// waiter.
    pub waiter: Option<u32>,
}

impl QueueAttr {
    /// A local FIFO queue in PULL mode that the creator consumes.
    #[must_use]
    pub const fn new(depth: u32) -> QueueAttr {
        QueueAttr {
            depth,
            work_mode: WorkMode::Pull,
            overwrite: false,
            shared: false,
            deploy: Deploy::Local,
            consumer: None,
            waiter: None,
        }
    }

    /// Consumed by the process of `slot`.
    #[must_use]
    pub const fn consumed_by(mut self, slot: SlotId) -> QueueAttr {
        self.consumer = Some(slot);
        self
    }
}

impl Default for QueueAttr {
    /// Depth 2.
    fn default() -> Self {
        QueueAttr::new(2)
    }
}

/// What goes with a message, both ways (executor-deployer §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControlInfo {
    /// Set by a dequeue that found the end of a sequence.
    pub end_of_sequence: bool,
    /// Milliseconds to wait; 0 = not at all, negative = for ever.
    pub timeout_ms: i32,
    /// Bytes a dequeue leaves out at the start.
    pub skip_size: usize,
    /// The 64 bytes at 192 of the head; `None` when enqueuing = zeros, and no id is assigned.
    pub msg_info: Option<MsgInfo>,
    /// The first 64 bytes of the head.
    pub user_data: [u8; USER_DATA_SIZE],
}

impl Default for ControlInfo {
    fn default() -> Self {
        ControlInfo {
            end_of_sequence: false,
            timeout_ms: 0,
            skip_size: 0,
            msg_info: None,
            user_data: [0; USER_DATA_SIZE],
        }
    }
}

impl ControlInfo {
    /// With this message information; timeout 0.
    #[must_use]
    pub fn with_info(msg_info: MsgInfo) -> ControlInfo {
        ControlInfo { msg_info: Some(msg_info), ..ControlInfo::default() }
    }
}

/// One piece of a gather. `data` is `None` where a C caller passes a null address.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<'a> {
    /// The bytes.
    pub data: Option<&'a [u8]>,
    /// How many of them; at most `data.len()`.
    pub len: usize,
}

impl<'a> From<&'a [u8]> for Buffer<'a> {
    fn from(data: &'a [u8]) -> Self {
        Buffer { data: Some(data), len: data.len() }
    }
}

impl<'a> Buffer<'a> {
    /// The bytes that count, `None` when there are fewer than `len`.
    #[must_use]
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self.data {
            Some(data) => data.get(..self.len),
            None if self.len == 0 => Some(&[]),
            None => None,
        }
    }
}

/// How long a verb waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Limit {
    /// One try.
    Now,
    /// Until then.
    Until(MonoTime),
    /// Without limit.
    Forever,
}

impl Limit {
    pub(crate) fn from_ms(timeout_ms: i32) -> Limit {
        match u64::try_from(timeout_ms) {
            Ok(0) => Limit::Now,
            Ok(ms) => Limit::Until(MonoTime::now().add_ms(ms)),
            Err(_) => Limit::Forever,
        }
    }

    /// As the deadline of a wait; `None` = without limit.
    pub(crate) fn deadline(self) -> Option<MonoTime> {
        match self {
            Limit::Now => Some(MonoTime::from_ns(0)),
            Limit::Until(time) => Some(time),
            Limit::Forever => None,
        }
    }

    /// True when nothing may be waited for any more.
    pub(crate) fn is_over(self) -> bool {
        self.deadline().is_some_and(|time| time.is_past(MonoTime::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Buffer, Limit};

    #[test]
    fn limits_follow_the_sign() {
        assert_eq!(Limit::from_ms(0), Limit::Now);
        assert_eq!(Limit::from_ms(-1), Limit::Forever);
        assert!(Limit::Now.is_over());
        assert!(!Limit::from_ms(60_000).is_over());
        assert!(!Limit::Forever.is_over());
    }

    #[test]
    fn a_buffer_is_never_longer_than_its_data() {
        assert_eq!(Buffer { data: Some(b"abc"), len: 2 }.bytes(), Some(&b"ab"[..]));
        assert_eq!(Buffer { data: Some(b"abc"), len: 4 }.bytes(), None);
        assert_eq!(Buffer { data: None, len: 0 }.bytes(), Some(&b""[..]));
        assert_eq!(Buffer { data: None, len: 1 }.bytes(), None);
    }
}
