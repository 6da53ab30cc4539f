//! The codes that calls on a device end with, and the error that carries one with its reason.

use std::borrow::Cow;
use std::fmt;

use executor_core::error::Code;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:expr;)+) => {
        $($(#[doc = $doc])+ pub const $name: Code = Code($value);)+
        /// Every code of a device with its name, for `docs/device.md`.
        pub const ALL: &[(Code, &str)] = &[$(($name, stringify!($name))),+];
    };
}

codes! {
    /// Something that a feed is given does not fit.
    AICPU_PARAM_INVALID = 21_001;
    /// A queue of a feed is closed.
    AICPU_DRIVER = 21_003;
    /// A set with a code ended the loop of its feed.
    AICPU_TASK_FAILED = 21_006;
    /// Another call of the feed is under way.
    AICPU_IN_WORKING = 21_100;
    /// The state of the feed does not allow this.
    AICPU_STATE = 21_103;
    /// Messages of an id did not come.
    AICPU_DISCARD_DATA = 21_108;
    /// An argument is null, zero or out of range.
    PARAM_INVALID = 107_000;
    /// A stream of another context.
    STREAM_CONTEXT = 107_003;
    /// A model of another context.
    MODEL_CONTEXT = 107_004;
    /// The stream is bound already, or to another model, or to none; or a model has no stream.
    STREAM_MODEL = 107_005;
    /// The stream is being aborted.
    STREAM_ABORT = 107_023;
    /// A capture would depend on something outside it.
    CAPTURE_DEPENDENCY = 107_024;
    /// A stream joined the capture and was not joined back.
    STREAM_UNJOINED = 107_025;
    /// The model is being captured, or was captured.
    MODEL_CAPTURED = 107_026;
    /// The stream is being captured.
    STREAM_CAPTURED = 107_027;
    /// The event was recorded in a capture.
    EVENT_CAPTURED = 107_028;
    /// The stream is not being captured.
    STREAM_NOT_CAPTURED = 107_029;
    /// A capture forbids this call.
    CAPTURE_MODE_NOT_SUPPORT = 107_030;
    /// The default stream can't be captured.
    STREAM_CAPTURE_IMPLICIT = 107_031;
    /// Another stream began the capture.
    CAPTURE_UNMATCHED = 107_036;
    /// The model is still running.
    MODEL_RUNNING = 107_037;
    /// Another thread began the capture.
    CAPTURE_WRONG_THREAD = 107_038;
    /// The array is too small; the count tells how much is needed.
    INSUFFICIENT_INPUT_ARRAY = 107_039;
    /// The tasks of an update do not fit its group.
    MODEL_UPDATE_FAILED = 107_040;
    /// A capture forbids an asynchronous copy of the caller's own memory.
    CAPTURE_MODE_BLOCK_ASYNC = 107_041;
    /// A branch of a condition is not ended.
    SUB_GRAPH_IS_CAPTURING = 107_045;
    /// The numbers of queues, inputs and outputs do not fit each other.
    EXEC_MODEL_QUEUE_ID_INVALID = 145_008;
    /// The object does not offer this.
    FEATURE_NOT_SUPPORT = 207_000;
    /// The device has no memory of this size.
    MEMORY_ALLOCATION = 207_001;
    /// All places for objects of this kind are used.
    RESOURCE_ALLOC_FAIL = 207_005;
    /// All streams of the device are used.
    NO_STREAM = 207_008;
    /// All notifies of the device are used.
    NO_NOTIFY = 207_009;
    /// All models of the device are used.
    NO_MODEL = 207_010;
    /// No message came in time.
    QUEUE_EMPTY = 207_013;
    /// No room came in time.
    QUEUE_FULL = 207_014;
    /// The end mark, a label, or an object that a task named is wrong.
    INTERNAL_ERROR = 507_000;
    /// The stream has no room for a task.
    STREAM_TASK_FULL = 507_002;
    /// This task can't be updated.
    TASK_TYPE_NOT_SUPPORT = 507_009;
    /// The model has no end mark, is not complete, or its streams ended without the mark.
    MODEL_EXECUTE = 507_011;
    /// A wait on the device took longer than its timeout.
    REPORT_TIMEOUT = 507_012;
    /// A kernel failed, or named memory that is not there.
    AICORE_EXCEPTION = 507_015;
    /// A kernel panicked.
    AICORE_TRAP = 507_016;
    /// A kernel of the device's CPU failed.
    AICPU_EXCEPTION = 507_018;
    /// The model was aborted.
    MODEL_ABORT_NORMAL = 507_023;
    /// A label of another context.
    LABEL_CONTEXT = 507_031;
    /// The stream was not done in time.
    STREAM_SYNC_TIMEOUT = 507_046;
    /// The event did not come in time.
    EVENT_SYNC_TIMEOUT = 507_047;
    /// The capture was invalidated.
    STREAM_CAPTURE_INVALIDATED = 507_903;
}

/// The name of a code.
#[must_use]
pub fn name(code: Code) -> &'static str {
    ALL.iter().find(|(known, _)| *known == code).map_or("unknown code", |(_, name)| name)
}

/// What a call was refused with: a code, and what, where, found and expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: Code,
    what: Cow<'static, str>,
}

impl Error {
    /// An error with this code.
    #[must_use]
    pub fn new(code: Code, what: impl Into<Cow<'static, str>>) -> Self {
        Self { code, what: what.into() }
    }

    /// What, where, found and expected, without the code.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.what
    }

    /// Its code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.what, name(self.code), self.code.0)
    }
}

impl std::error::Error for Error {}

/// What a call on a device gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Shorthand for a refusal.
pub(crate) fn refuse<T>(code: Code, what: impl Into<Cow<'static, str>>) -> Result<T> {
    Err(Error::new(code, what))
}
