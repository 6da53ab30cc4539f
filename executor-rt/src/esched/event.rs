//! Names of the event scheduler: event ids, priorities, group kinds, what is submitted and
//! delivered.

use core::fmt;

use executor_core::error::Code;
use executor_core::owner::QueueId;

/// Longest message of an event, bytes.
pub const MESSAGE_MAX: usize = 128;
/// Most threads of a group.
pub const THREADS_MAX: u32 = 1024;

/// An event id, 0..64; 48 to 63 are the users' (device-runtime §2.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventId(u8);

impl EventId {
    /// A message was enqueued (subscriptions of kind GROUP).
    pub const QUEUE_ENQUEUE: EventId = EventId(6);
    /// A full queue has room again; the sub-event is the queue.
    pub const FULL_TO_NOT_FULL: EventId = EventId(7);
    /// An empty queue has a message; the sub-event is the queue.
    pub const EMPTY_TO_NOT_EMPTY: EventId = EventId(8);
    /// Message to the queue scheduler; may be submitted synchronously.
    pub const QS_MSG: EventId = EventId(25);
    /// Proxy of group operations; may be submitted synchronously.
    pub const PROXY: EventId = EventId(56);

    /// An id, `None` from 64 on.
    #[must_use]
    pub fn new(id: u32) -> Option<EventId> {
        u8::try_from(id).ok().filter(|id| *id < 64).map(EventId)
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u32 {
        u32::from(self.0)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0 & 63)
    }

    /// Its bit in a subscription.
    #[must_use]
    pub fn bit(self) -> u64 {
        1 << (self.0 & 63)
    }
}

/// Level of an event id: 0 is delivered before 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Priority(u8);

impl Priority {
    /// First.
    pub const LEVEL0: Priority = Priority(0);
    /// Last.
    pub const LEVEL7: Priority = Priority(7);
    /// What an event id has until told otherwise.
    pub const DEFAULT: Priority = Priority(4);

    /// A level, `None` from 8 on.
    #[must_use]
    pub fn new(level: u8) -> Option<Priority> {
        (level < 8).then_some(Priority(level))
    }

    /// The number.
    #[must_use]
    pub fn level(self) -> u8 {
        self.0
    }
}

/// What a group is for. Kept for tools; here every group runs on the process's own threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupKind {
    /// Threads bound to data CPUs.
    BindDataCpu = 1,
    /// Threads bound to control CPUs.
    BindControlCpu = 2,
    /// A data CPU of its own.
    DataCpuExclusive = 3,
}

impl TryFrom<u32> for GroupKind {
    type Error = EventError;

    fn try_from(kind: u32) -> Result<Self, EventError> {
        match kind {
            1 => Ok(GroupKind::BindDataCpu),
            2 => Ok(GroupKind::BindControlCpu),
            3 => Ok(GroupKind::DataCpuExclusive),
            _ => Err(EventError::Invalid("expected group type 1, 2 or 3")),
        }
    }
}

/// An event to submit.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Process it is for; 0 = this one.
    pub pid: u32,
    /// Group it is for.
    pub group: u32,
    /// What happened.
    pub event: EventId,
    /// To whom or what.
    pub subevent: u32,
    /// At most 128 bytes.
    pub message: &'a [u8],
}

/// A delivered event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// Process that submitted it.
    pub pid: u32,
    /// What happened.
    pub event: EventId,
    /// To whom or what.
    pub subevent: u32,
    /// Bytes of its message.
    pub len: usize,
}

/// Kind of a queue subscription (device-runtime §2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscribeKind {
    /// Delivered as [`EventId::QUEUE_ENQUEUE`].
    Group = 1,
    /// Delivered as [`EventId::EMPTY_TO_NOT_EMPTY`].
    Single = 2,
}

/// Which edge of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Edge {
    /// Empty to not empty (or each enqueue in PUSH mode), for the consumer.
    NotEmpty(SubscribeKind),
    /// Full to not full, for a producer.
    NotFull,
}

/// Why a verb of the scheduler did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EventError {
    /// An argument is out of range, or names nothing; with what was expected.
    Invalid(&'static str),
    /// Only events 25 and 56 may be submitted synchronously, and only to this process.
    NotSupported(&'static str),
    /// Waiting without a subscription.
    NotSubscribed,
    /// The group, or a subscription of this queue and direction, exists already.
    Exists,
    /// The group's store is full.
    Full,
    /// Subscriptions or synchronous submits are used up.
    OverLimit,
    /// Nothing came in time.
    TimedOut,
    /// The message has `needed` bytes and the place for it has fewer. The event stays.
    TooSmall {
        /// Bytes of the message.
        needed: usize,
    },
    /// The device was detached meanwhile.
    Detached,
    /// The queue is unknown, or its events come to another process or waiter.
    Queue(QueueId),
}

impl EventError {
    /// The code that callers see.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Invalid(_) | Self::TooSmall { .. } | Self::Queue(_) => Code::INVALID_VALUE,
            Self::NotSupported(_) => Code::FEATURE_NOT_SUPPORT,
            Self::NotSubscribed => Code::OPER_NOT_PERMITTED,
            Self::Exists => Code::REPEATED_INIT,
            Self::Full => Code::QUEUE_FULL,
            Self::OverLimit => Code::OVER_LIMIT,
            Self::TimedOut => Code::REPORT_TIMEOUT,
            Self::Detached => Code::DRV_INTERNAL,
        }
    }
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) | Self::NotSupported(why) => f.write_str(why),
            Self::NotSubscribed => f.write_str("this thread subscribed to no event"),
            Self::Exists => f.write_str("exists already"),
            Self::Full => f.write_str("the group's store of events is full"),
            Self::OverLimit => f.write_str("every place of the scheduler is in use"),
            Self::TimedOut => f.write_str("no event in time"),
            Self::TooSmall { needed } => {
                write!(f, "the message has {needed} bytes, found less room")
            }
            Self::Detached => f.write_str("the device was detached"),
            Self::Queue(queue) => {
                write!(f, "queue {}: unknown, or it rings another process or waiter", queue.0)
            }
        }
    }
}

impl std::error::Error for EventError {}
