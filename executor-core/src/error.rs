//! Numeric codes and the small error enums of every verb.
//!
//! A [`Code`] travels in `MsgInfo.ret_code`, in executor responses and out of the host API. It is a
//! newtype with constants and never an enum, so a value that a peer invented is still a value.
//! Numbers without the prefix `OWN` come from the specifications; ours start at
//! [`Code::OWN_FIRST`]. `docs/codes.md` lists all of them with what to do.

use core::fmt;

/// A status code; 0 is success. Source: executor-deployer §0.2, udf §1.1, device-runtime §2.1.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Code(pub u32);

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:expr, $text:literal;)+) => {
        impl Code {
            $($(#[doc = $doc])+ pub const $name: Code = Code($value);)+
            /// Every known code with its name and its text, for `docs/codes.md` and the tools.
            pub const ALL: &'static [(Code, &'static str, &'static str)] =
                &[$((Code::$name, stringify!($name), $text)),+];
        }
    };
}

codes! {
    /// Done.
    SUCCESS = 0, "success";
    /// Generic failure of the executor protocol (GE `FAILED`).
    FAILED = 0xFFFF_FFFF, "failed";
    /// The state of a model does not allow this (device-runtime §3.2).
    AICPU_STATE = 21_103, "not allowed in this state of the model";
    /// A bad argument on the runtime API.
    INVALID_VALUE = 107_000, "invalid argument";
    /// A bad argument on the graph and exchange API (`ACL_ERROR_GE_PARAM_INVALID`).
    PARAM_INVALID = 145_000, "invalid parameter";
    /// Number of queues differs from number of inputs or outputs of a model.
    EXEC_MODEL_QUEUE_ID_INVALID = 145_008, "queue count does not fit the model";
    /// A flow function was given a bad argument.
    FLOW_FUNC_PARAM_INVALID = 164_000, "flow func: invalid parameter";
    /// A flow function asked for an attribute that is not there.
    FLOW_FUNC_ATTR_NOT_EXISTS = 164_001, "flow func: no such attribute";
    /// A flow function asked for an attribute by another type.
    FLOW_FUNC_ATTR_TYPE_MISMATCH = 164_002, "flow func: attribute has another type";
    /// Not supported by this build or this object.
    FEATURE_NOT_SUPPORT = 207_000, "not supported";
    /// Out of memory (also: the partition has no block of this size).
    MEMORY_ALLOCATION = 207_001, "out of memory";
    /// The caller holds no right for this operation.
    OPER_NOT_PERMITTED = 207_006, "operation not permitted";
    /// A limit of the group is used up.
    OVER_LIMIT = 207_012, "over the limit";
    /// Nothing to dequeue.
    QUEUE_EMPTY = 207_013, "queue empty";
    /// No room to enqueue.
    QUEUE_FULL = 207_014, "queue full";
    /// Initialised or added before.
    REPEATED_INIT = 207_015, "repeated initialisation";
    /// Running on reduced resources after a recovery.
    SUBHEALTHY = 345_102, "subhealthy";
    /// A user function raised an exception for this id.
    USER_EXCEPTION = 345_103, "user exception";
    /// Inputs of one id could not be aligned.
    NOT_ALIGNED = 345_104, "data not aligned";
    /// Alignment of a flow function's inputs failed.
    FLOW_FUNC_DATA_ALIGN_FAILED = 364_000, "flow func: inputs not aligned";
    /// ACL wrapper: the poll time ran out.
    ACL_FAILURE = 500_001, "failure";
    /// Waiting took longer than its deadline (driver `WAIT_TIMEOUT`).
    REPORT_TIMEOUT = 507_012, "timed out";
    /// A message that has to have a time has none: 21001 of the device, as it leaves in a head.
    AICPU_PARAM_INVALID = 521_001, "input of the model without a time";
    /// An input of a model did not come: 21108 of the device, as it leaves in a head.
    AICPU_DISCARD_DATA = 521_108, "inputs of the model not aligned";
    /// An unknown driver error.
    DRV_INTERNAL = 507_899, "internal error";
    /// A request or a kind of message that nobody handles.
    UNSUPPORTED = 1_343_225_956, "unsupported";
    /// Redeploying; try again later.
    REDEPLOYING = 545_602, "redeploying";
    /// Generic failure inside a flow function's runtime.
    FLOW_FUNC_FAILED = 564_000, "flow func: failed";
    /// A flow function's wait timed out.
    FLOW_FUNC_TIME_OUT = 564_001, "flow func: timed out";
    /// Not supported by this flow function object.
    FLOW_FUNC_NOT_SUPPORT = 564_002, "flow func: not supported";
    /// The wait was cut short by a suspend.
    FLOW_FUNC_REDEPLOYING = 564_003, "flow func: redeploying";
    /// The wait was cut short because the process ends.
    FLOW_FUNC_EXIT = 564_004, "flow func: exiting";
    /// Driver error.
    FLOW_FUNC_DRV_ERROR = 564_100, "flow func: driver error";
    /// Mbuf error.
    FLOW_FUNC_MEM_BUF_ERROR = 564_101, "flow func: mbuf error";
    /// Queue error.
    FLOW_FUNC_QUEUE_ERROR = 564_102, "flow func: queue error";
    /// `Init` asks to be called again.
    FLOW_FUNC_INIT_AGAIN = 144, "flow func: call Init again";
    /// `Proc` keeps its inputs and asks to be called again.
    FLOW_FUNC_PROC_PENDING = 145, "flow func: call Proc again";
    /// An executor died while it held this id.
    EXECUTOR_DIED = Code::OWN_FIRST + 1, "the executor died while it held this id";
    /// The function returned success and set no output for this id.
    NO_OUTPUT = Code::OWN_FIRST + 2, "the function set no output for this id";
    /// The function panicked.
    UDF_PANIC = Code::OWN_FIRST + 3, "the function panicked";
    /// The deadline of this id passed.
    DEADLINE = Code::OWN_FIRST + 4, "deadline passed";
    /// This id was cancelled.
    CANCELLED = Code::OWN_FIRST + 5, "cancelled";
    /// A node failed for good.
    NODE_FAILED = Code::OWN_FIRST + 6, "a node failed and is not restarted";
    /// The supervisor died.
    SUPERVISOR_DIED = Code::OWN_FIRST + 7, "the supervisor died";
    /// A peer wrote something impossible into shared memory.
    PEER_FAULT = Code::OWN_FIRST + 8, "impossible value in shared memory";
    /// Control segment of another version or other sizes.
    LAYOUT_MISMATCH = Code::OWN_FIRST + 9, "control segment of another layout";
    /// Control segment is truncated or garbage.
    GROUP_CORRUPT = Code::OWN_FIRST + 10, "control segment is not valid";
    /// No free mbuf before the deadline.
    NO_MBUF = Code::OWN_FIRST + 11, "no free mbuf before the deadline";
    /// Larger than the largest block of the partition.
    TOO_LARGE = Code::OWN_FIRST + 12, "larger than the largest block";
    /// This input killed its node more often than the poison limit allows.
    POISON = Code::OWN_FIRST + 13, "poisonous input";
    /// Inputs of one set carry different ids.
    MISPAIRED = Code::OWN_FIRST + 14, "inputs of one set carry different ids";
    /// A control message that can't be decoded.
    BAD_MESSAGE = Code::OWN_FIRST + 15, "malformed message";
    /// A function wrote into another partition.
    WRITE_FAULT = Code::OWN_FIRST + 16, "write into a foreign partition";
    /// The session is closed.
    SESSION_CLOSED = Code::OWN_FIRST + 17, "session closed";
    /// An executor was killed while it held this id: no progress within its `stall_ms`.
    STALLED = Code::OWN_FIRST + 18, "the executor was killed: no progress within `stall_ms`";
}

impl Code {
    /// First number of our own range; every code above is defined by this project.
    pub const OWN_FIRST: u32 = 0x00DF_0000;

    /// True for [`Code::SUCCESS`].
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// The code as it stands in `MsgInfo.ret_code`.
    #[must_use]
    pub const fn to_ret_code(self) -> i32 {
        self.0.cast_signed()
    }

    /// A `MsgInfo.ret_code` as a code.
    #[must_use]
    pub const fn from_ret_code(ret_code: i32) -> Self {
        Code(ret_code.cast_unsigned())
    }

    /// The constant's name, if this is a known code.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::ALL.iter().find(|(code, ..)| *code == self).map(|(_, name, _)| *name)
    }

    /// A short text; "unknown code" for numbers that are not ours.
    #[must_use]
    pub fn text(self) -> &'static str {
        Self::ALL.iter().find(|(code, ..)| *code == self).map_or("unknown code", |(.., text)| text)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text(), self.0.cast_signed())
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name}({})", self.0),
            None => write!(f, "Code({})", self.0),
        }
    }
}

macro_rules! verb_error {
    ($(#[doc = $doc:literal])+ $name:ident {
        $($(#[doc = $vdoc:literal])+ $variant:ident => $code:ident, $text:literal;)+
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[doc = $vdoc])+ $variant,)+
        }
        impl $name {
            /// The code that peers and callers see.
            #[must_use]
            pub const fn code(self) -> Code {
                match self { $($name::$variant => Code::$code,)+ }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$variant => $text,)+ })
            }
        }
        impl core::error::Error for $name {}
    };
}

verb_error! {
    /// Why an mbuf was not allocated.
    AllocError {
        /// Every block (or entry) of a fitting size class is in use; wait on the pool.
        Exhausted => NO_MBUF, "no free mbuf in the own partition";
        /// No size class is large enough.
        TooLarge => TOO_LARGE, "larger than the largest block of the own partition";
        /// The chain, the tensor list or the alignment asked for is out of range.
        Invalid => INVALID_VALUE, "invalid size or alignment";
    }
}

verb_error! {
    /// Why an mbuf was not enqueued; the caller still owns it.
    EnqueueError {
        /// `depth` messages are queued.
        Full => QUEUE_FULL, "queue full";
        /// The queue was destroyed or never granted for writing.
        NotPermitted => OPER_NOT_PERMITTED, "no right to enqueue";
        /// The lock holder of an overwriting queue is busy; try again.
        Busy => QUEUE_FULL, "queue is locked by another process";
        /// Control words hold an impossible value; the queue is quarantined.
        Fault => PEER_FAULT, "queue is quarantined after an impossible value";
    }
}

verb_error! {
    /// Why nothing was dequeued.
    DequeueError {
        /// No message is queued.
        Empty => QUEUE_EMPTY, "queue empty";
        /// The queue was destroyed or never granted for reading.
        NotPermitted => OPER_NOT_PERMITTED, "no right to dequeue";
        /// Another process holds the shared end; try again.
        Busy => QUEUE_EMPTY, "queue is locked by another process";
        /// The slot word, entry or block named by the producer is impossible; it was skipped.
        Fault => PEER_FAULT, "queue entry is quarantined after an impossible value";
    }
}

verb_error! {
    /// Why a control segment was not attached.
    AttachError {
        /// Fewer bytes than the header claims, or than a header needs.
        Truncated => GROUP_CORRUPT, "control segment is truncated";
        /// Not a control segment.
        BadMagic => GROUP_CORRUPT, "control segment has no valid magic number";
        /// Written by another version.
        Version => LAYOUT_MISMATCH, "control segment has another ABI version";
        /// Sizes or offsets in the header are not those this build computes.
        Layout => LAYOUT_MISMATCH, "control segment has another layout";
        /// Slot or worker number out of range, or taken.
        Slot => OVER_LIMIT, "slot or worker is out of range or taken";
    }
}

verb_error! {
    /// Why a queue was not created, granted, attached, reset or destroyed.
    QueueError {
        /// Depth below 2, name too long or empty, unknown queue, slot out of range.
        Invalid => INVALID_VALUE, "invalid queue argument";
        /// All queues, lanes or ring words of the group are used.
        OverLimit => OVER_LIMIT, "no free queue, lane or ring space in the group";
        /// The caller holds no right for this.
        NotPermitted => OPER_NOT_PERMITTED, "no right to manage or use this queue";
        /// A name or a grant that exists already.
        Exists => REPEATED_INIT, "exists already";
        /// Another process holds the queue's lock.
        Busy => REPORT_TIMEOUT, "queue is locked by another process";
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::Code;
    use std::collections::HashSet;

    #[test]
    fn codes_are_unique_and_named() {
        let numbers: HashSet<u32> = Code::ALL.iter().map(|(code, ..)| code.0).collect();
        assert_eq!(numbers.len(), Code::ALL.len());
        assert_eq!(Code::QUEUE_FULL.name(), Some("QUEUE_FULL"));
        assert_eq!(Code(4_000_000_000).text(), "unknown code");
    }

    #[test]
    fn ret_code_round_trip() {
        for (code, ..) in Code::ALL {
            assert_eq!(Code::from_ret_code(code.to_ret_code()), *code);
        }
        assert_eq!(Code::EXECUTOR_DIED.0, 14_614_529);
    }
}
