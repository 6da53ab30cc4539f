//! Messages of package `ff.deployer` that an executor sends or receives.
//!
//! Field numbers are those of executor-deployer §1.7 and udf Appendix A and never change. Parts
//! that no executor of ours interprets (variable manager, file constants, the unused single load)
//! stay opaque bytes: they survive a round trip and are never parsed. Numbers ≥ 1001 are ours.

use std::collections::BTreeMap;

use super::extension::{InputAlignTime, NodeOptions, OutputDestinations};

/// `DeviceType::NPU`.
pub const DEVICE_NPU: i32 = 0;
/// `DeviceType::CPU`.
pub const DEVICE_CPU: i32 = 1;
/// Queue number of an output that nobody reads.
pub const DUMMY_QUEUE: u32 = u32::MAX;
/// `ClearModelRequest.clear_msg_type`: stop (suspend).
pub const CLEAR_STOP: i32 = 1;
/// `ClearModelRequest.clear_msg_type`: clear and restart (recover).
pub const CLEAR_RESTART: i32 = 2;
/// `DataflowExceptionNotify.type`: an exception occurred.
pub const EXCEPTION_ADD: u32 = 0;
/// `DataflowExceptionNotify.type`: the exception expired.
pub const EXCEPTION_DELETE: u32 = 1;

/// What an executor is asked to do; see [`super::dispatch`] for the order of the bodies.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecutorRequest {
    /// Variable memory set-up, opaque.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub sync_var_manager_message: Option<Vec<u8>>,
    /// Load one or many models.
    #[prost(message, optional, tag = "2")]
    pub batch_load_model_message: Option<BatchLoadModelMessage>,
    /// Load of one model; exists on the wire, no executor uses it.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub load_model_message: Option<Vec<u8>>,
    /// Unload a root model.
    #[prost(message, optional, tag = "5")]
    pub unload_model_message: Option<UnloadModelRequest>,
    /// Stop, or clear and restart.
    #[prost(message, optional, tag = "6")]
    pub clear_model_message: Option<ClearModelRequest>,
    /// Exception by trans_id, raised elsewhere (udf.md calls the field `exception_request`).
    #[prost(message, optional, tag = "7")]
    pub exception_notify_request: Option<DataflowExceptionNotifyRequest>,
    /// Start or stop profiling.
    #[prost(message, optional, tag = "8")]
    pub update_prof_message: Option<UpdateProfRequest>,
    /// Kind, as [`ExecutorRequestType`]; informative except for `Notify`.
    #[prost(enumeration = "ExecutorRequestType", tag = "9")]
    pub r#type: i32,
    /// Number that the response echoes in parallel mode.
    #[prost(uint64, tag = "10")]
    pub message_id: u64,
}

/// Values of `ExecutorRequest.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ExecutorRequestType {
    /// Announces files.
    PreDownload = 0,
    /// Transfers files.
    Download = 1,
    /// Loads models.
    Load = 2,
    /// Unloads a root model.
    Unload = 3,
    /// Ends the process.
    Finalize = 4,
    /// Stops or restarts.
    Clear = 5,
    /// Exception by trans_id.
    ExceptionNotify = 6,
    /// Hand-shake of NPU-scheduled functions.
    Notify = 7,
}

/// The answer to one request, and the init notification.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecutorResponse {
    /// Echo of the request's number; built-in executors leave it 0.
    #[prost(uint64, tag = "1")]
    pub message_id: u64,
    /// 0, or a code.
    #[prost(uint32, tag = "2")]
    pub error_code: u32,
    /// Text for people.
    #[prost(string, tag = "3")]
    pub error_message: String,
}

/// One or many models to load; also the content of a UDF's load file (exactly one model there).
#[derive(Clone, PartialEq, prost::Message)]
pub struct BatchLoadModelMessage {
    /// Variable manager, opaque.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub var_manager_info: Option<Vec<u8>>,
    /// File constants, opaque.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub file_constant_descs: Vec<Vec<u8>>,
    /// The models, in load order.
    #[prost(message, repeated, tag = "5")]
    pub models: Vec<LoadModelRequest>,
    /// Handle key shared by all models.
    #[prost(uint32, tag = "7")]
    pub root_model_id: u32,
    /// Graph these models belong to.
    #[prost(uint32, tag = "10")]
    pub graph_id: u32,
    /// Options that the load merges.
    #[prost(message, optional, tag = "12")]
    pub options: Option<Options>,
}

/// Options by scope.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Options {
    /// Of the process.
    #[prost(btree_map = "string, string", tag = "1")]
    pub global: BTreeMap<String, String>,
    /// Of the session.
    #[prost(btree_map = "string, string", tag = "2")]
    pub session: BTreeMap<String, String>,
    /// Of the graph.
    #[prost(btree_map = "string, string", tag = "3")]
    pub graph: BTreeMap<String, String>,
}

/// One model with its queues (executor-deployer §1.7.1).
#[derive(Clone, PartialEq, prost::Message)]
pub struct LoadModelRequest {
    /// First half of the handle key.
    #[prost(uint32, tag = "1")]
    pub root_model_id: u32,
    /// Second half of the handle key.
    #[prost(uint32, tag = "2")]
    pub model_id: u32,
    /// Relative to the base directory.
    #[prost(string, tag = "3")]
    pub model_path: String,
    /// Model of unknown shapes.
    #[prost(bool, tag = "4")]
    pub is_dynamic: bool,
    /// Number of instances of this model.
    #[prost(uint32, tag = "7")]
    pub replica_num: u32,
    /// Which of them this is.
    #[prost(uint32, tag = "8")]
    pub replica_idx: u32,
    /// String attributes.
    #[prost(btree_map = "string, string", tag = "9")]
    pub attrs: BTreeMap<String, String>,
    /// Status reporting is on when the output part holds exactly one entry.
    #[prost(message, optional, tag = "11")]
    pub status_queues: Option<ModelQueuesAttrs>,
    /// Id used in status reports.
    #[prost(uint32, tag = "14")]
    pub model_uuid: u32,
    /// Instances are chosen by the scheduler.
    #[prost(bool, tag = "15")]
    pub is_dynamic_sched: bool,
    /// Report queue status after each round.
    #[prost(bool, tag = "16")]
    pub need_report_status: bool,
    /// Not interpreted.
    #[prost(int32, tag = "17")]
    pub load_mode: i32,
    /// Rounds to run; −1 = repeat for ever (senders always set it).
    #[prost(int32, tag = "18")]
    pub execute_times: i32,
    /// Per input: which of the tensors fused in one mbuf.
    #[prost(int32, repeated, tag = "19")]
    pub input_fusion_offsets: Vec<i32>,
    /// Physical device of a UDF; −1 = host without a device.
    #[prost(int32, tag = "21")]
    pub phy_device_id: i32,
    /// Run the dynamic model through the proxy executor.
    #[prost(bool, tag = "22")]
    pub is_dynamic_proxy_controlled: bool,
    /// Queues of the inputs and outputs, in port order.
    #[prost(message, optional, tag = "23")]
    pub model_queues_attrs: Option<ModelQueuesAttrs>,
    /// Queues towards invoked models, by invoke key.
    #[prost(btree_map = "string, message", tag = "24")]
    pub invoked_model_queues_attrs: BTreeMap<String, ModelQueuesAttrs>,
    /// First model of the flow.
    #[prost(bool, tag = "25")]
    pub is_head: bool,
    /// Alignment of inputs by trans_id.
    #[prost(message, optional, tag = "26")]
    pub input_align_attrs: Option<InputAlignAttrs>,
    /// Used in abnormal reports.
    #[prost(string, tag = "27")]
    pub model_instance_name: String,
    /// Local cached file that overrides `model_path`.
    #[prost(string, tag = "28")]
    pub saved_model_file_path: String,
    /// The function is a built-in one.
    #[prost(bool, tag = "29")]
    pub is_builtin_udf: bool,
    /// Exceptions by trans_id are caught in this scope.
    #[prost(bool, tag = "30")]
    pub enable_exception_catch: bool,
    /// Exception scope.
    #[prost(string, tag = "31")]
    pub scope: String,
    /// Ours: per output port, where its messages go.
    #[prost(message, repeated, tag = "1001")]
    pub output_destinations: Vec<OutputDestinations>,
    /// Ours: what the node opted into.
    #[prost(message, optional, tag = "1002")]
    pub node_options: Option<NodeOptions>,
    /// Ours: alignment of inputs by time.
    #[prost(message, optional, tag = "1003")]
    pub input_align_time: Option<InputAlignTime>,
}

/// Queues of a model, inputs and outputs.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ModelQueuesAttrs {
    /// In input port order.
    #[prost(message, repeated, tag = "1")]
    pub input_queues_attrs: Vec<QueueAttrs>,
    /// In output port order.
    #[prost(message, repeated, tag = "2")]
    pub output_queues_attrs: Vec<QueueAttrs>,
}

/// A queue and where it lives.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct QueueAttrs {
    /// Queue number; [`DUMMY_QUEUE`] = unconnected output.
    #[prost(uint32, tag = "1")]
    pub queue_id: u32,
    /// [`DEVICE_NPU`] or [`DEVICE_CPU`].
    #[prost(int32, tag = "2")]
    pub device_type: i32,
    /// Device that owns the queue.
    #[prost(int32, tag = "3")]
    pub device_id: i32,
    /// Logical number across nodes (`global_logic_id` in requests, `logic_id` in status reports).
    #[prost(uint32, tag = "4")]
    pub logic_id: u32,
}

/// How inputs are aligned by trans_id.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct InputAlignAttrs {
    /// Cached sets; 0 = alignment off.
    #[prost(uint32, tag = "1")]
    pub align_max_cache_num: u32,
    /// Milliseconds; −1 = wait for ever.
    #[prost(int32, tag = "2")]
    pub align_timeout: i32,
    /// Drop an incomplete set rather than run with what is there.
    #[prost(bool, tag = "3")]
    pub drop_when_not_align: bool,
}

/// Unload a root model. The specification names only its meaning; field 1 is our reading.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct UnloadModelRequest {
    /// The root model.
    #[prost(uint32, tag = "1")]
    pub model_id: u32,
}

/// Stop a model, or clear its inputs and restart it.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ClearModelRequest {
    /// The root model.
    #[prost(uint32, tag = "1")]
    pub model_id: u32,
    /// [`CLEAR_STOP`] or [`CLEAR_RESTART`].
    #[prost(int32, tag = "2")]
    pub clear_msg_type: i32,
}

/// Exception notification for one root model.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DataflowExceptionNotifyRequest {
    /// The root model.
    #[prost(uint32, tag = "1")]
    pub root_model_id: u32,
    /// The exception.
    #[prost(message, optional, tag = "2")]
    pub exception_notify: Option<DataflowExceptionNotify>,
}

/// A user exception by trans_id.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DataflowExceptionNotify {
    /// [`EXCEPTION_ADD`] or [`EXCEPTION_DELETE`].
    #[prost(uint32, tag = "1")]
    pub r#type: u32,
    /// The user's code.
    #[prost(int32, tag = "2")]
    pub exception_code: i32,
    /// The id it belongs to.
    #[prost(uint64, tag = "3")]
    pub trans_id: u64,
    /// Exception scope.
    #[prost(string, tag = "4")]
    pub scope: String,
    /// The user's context number.
    #[prost(uint64, tag = "5")]
    pub user_context_id: u64,
    /// Mbuf head of the raising input, at most [`super::EXCEPTION_CONTEXT_MAX`] bytes.
    #[prost(bytes = "vec", tag = "6")]
    pub exception_context: Vec<u8>,
}

/// Start or stop profiling.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateProfRequest {
    /// True = start.
    #[prost(bool, tag = "1")]
    pub is_prof_start: bool,
    /// Profiling configuration.
    #[prost(string, tag = "2")]
    pub prof_data: String,
    /// The model, where the sender names one.
    #[prost(uint32, tag = "3")]
    pub model_id: u32,
}
