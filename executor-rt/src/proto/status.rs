//! Status messages that a model writes to its status queue (udf §4.3).

use super::deployer::QueueAttrs;

/// `SubmodelStatus.msg_type`: queue status after a round.
pub const STATUS_QUEUES: u32 = 0;
/// `SubmodelStatus.msg_type`: an exception was raised.
pub const STATUS_EXCEPTION: u32 = 1;

/// What one model reports.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubmodelStatus {
    /// The model's `model_uuid` of its load request.
    #[prost(uint32, tag = "1")]
    pub model_uuid: u32,
    /// One entry per input.
    #[prost(message, repeated, tag = "2")]
    pub queue_statuses: Vec<QueueStatus>,
    /// [`STATUS_QUEUES`] or [`STATUS_EXCEPTION`].
    #[prost(uint32, tag = "3")]
    pub msg_type: u32,
    /// Present when `msg_type` is [`STATUS_EXCEPTION`].
    #[prost(message, optional, tag = "4")]
    pub exception_info: Option<DataflowException>,
}

/// State of one input queue.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct QueueStatus {
    /// Which queue.
    #[prost(message, optional, tag = "1")]
    pub queue_attrs: Option<QueueAttrs>,
    /// Messages in it now; `u32::MAX` when the query failed.
    #[prost(uint32, tag = "2")]
    pub queue_depth: u32,
    /// Rounds finished since the last report that was sent.
    #[prost(uint32, tag = "3")]
    pub input_consume_num: u32,
}

/// An exception on its way from the raising function to the host.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DataflowException {
    /// The user's code.
    #[prost(int32, tag = "1")]
    pub exception_code: i32,
    /// The id it belongs to.
    #[prost(uint64, tag = "2")]
    pub trans_id: u64,
    /// Exception scope.
    #[prost(string, tag = "3")]
    pub scope: String,
    /// The user's context number.
    #[prost(uint64, tag = "4")]
    pub user_context_id: u64,
    /// The 256-byte mbuf head.
    #[prost(bytes = "vec", tag = "5")]
    pub exception_context: Vec<u8>,
}
