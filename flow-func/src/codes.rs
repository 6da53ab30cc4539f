//! Return codes of a flow function, udf §1.1, and our own ones that a function can meet.

/// Done.
pub const SUCCESS: i32 = 0;
/// `init` asks to be called again later.
pub const INIT_AGAIN: i32 = 144;
/// `proc` keeps its inputs and asks to be called again.
pub const PENDING: i32 = 145;
/// Bad argument, wrong type or shape, bad output index.
pub const PARAM_INVALID: i32 = 164_000;
/// No such attribute.
pub const ATTR_NOT_EXISTS: i32 = 164_001;
/// The attribute is of another type.
pub const ATTR_TYPE_MISMATCH: i32 = 164_002;
/// On a substituted input: its alignment expired or overflowed.
pub const DATA_ALIGN_FAILED: i32 = 364_000;
/// Generic failure.
pub const FAILED: i32 = 564_000;
/// A wait timed out.
pub const TIME_OUT: i32 = 564_001;
/// Not supported.
pub const NOT_SUPPORT: i32 = 564_002;
/// A wait was cut short by suspend or recover.
pub const REDEPLOYING: i32 = 564_003;
/// A wait was cut short because the process ends.
pub const EXIT: i32 = 564_004;
/// Driver failure.
pub const DRV_ERROR: i32 = 564_100;
/// Mbuf failure.
pub const MEM_BUF_ERROR: i32 = 564_101;
/// Queue failure.
pub const QUEUE_ERROR: i32 = 564_102;
/// Event failure.
pub const EVENT_ERROR: i32 = 564_103;
/// First user code (inclusive).
pub const USER_DEFINE_START: i32 = 9_900_000;
/// Last user code (inclusive).
pub const USER_DEFINE_END: i32 = 9_999_999;
/// The function panicked.
pub const UDF_PANIC: i32 = 14_614_531;
/// No free mbuf before the deadline.
pub const NO_MBUF: i32 = 14_614_539;
/// Larger than the largest block.
pub const TOO_LARGE: i32 = 14_614_540;
