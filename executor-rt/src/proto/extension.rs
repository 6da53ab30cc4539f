//! Our own additions to `LoadModelRequest`, in field numbers ≥ 1001 that other readers skip.

/// Where the messages of one output port go (field 1001 of `LoadModelRequest`, one per port).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OutputDestinations {
    /// One group per consumer; every group gets each message (fan-out by reference).
    #[prost(message, repeated, tag = "1")]
    pub groups: Vec<DestinationGroup>,
}

/// The queues of one consumer's instances.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DestinationGroup {
    /// In instance order; `(trans_id + route_label) mod queue_ids.len()` chooses.
    #[prost(uint32, repeated, tag = "1")]
    pub queue_ids: Vec<u32>,
}

impl DestinationGroup {
    /// The queue that gets the message of `trans_id`; `None` for a group without queues.
    #[must_use]
    pub fn queue_for(&self, trans_id: u64) -> Option<u32> {
        let count = u64::try_from(self.queue_ids.len()).ok().filter(|count| *count > 0)?;
        let index = usize::try_from(trans_id % count).ok()?;
        self.queue_ids.get(index).copied()
    }
}

/// How inputs are aligned by time (field 1003 of `LoadModelRequest`).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InputAlignTime {
    /// Most distance of a set's times, less their offsets; in the unit of the times.
    #[prost(uint64, tag = "1")]
    pub interval: u64,
    /// Of each input queue; none: all 0.
    #[prost(uint64, repeated, tag = "2")]
    pub offsets: Vec<u64>,
    /// Milliseconds that a message of the first input waits; 0 = for ever.
    #[prost(uint32, tag = "3")]
    pub timeout_ms: u32,
}

/// What a node opted into (field 1002 of `LoadModelRequest`).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeOptions {
    /// The function keeps state between ids: no redelivery without its consent.
    #[prost(bool, tag = "1")]
    pub stateful: bool,
    /// A set that was inside Proc at a death is given to the successor again.
    #[prost(bool, tag = "2")]
    pub redeliver: bool,
    /// Deaths by one input before it is answered with `POISON`.
    #[prost(uint32, tag = "3")]
    pub poison_limit: u32,
    /// Inputs are copied into the own partition before Proc.
    #[prost(bool, tag = "4")]
    pub copy_inputs: bool,
    /// Input sets that the function may hold at once (`PROC_PENDING`).
    #[prost(uint32, tag = "5")]
    pub holds: u32,
    /// The node's name in the graph, for logs.
    #[prost(string, tag = "6")]
    pub node_name: String,
    /// The function library as the graph named it, already resolved.
    #[prost(string, tag = "7")]
    pub library_path: String,
    /// Milliseconds that Init may take before the executor counts as failed; 0 = no limit.
    #[prost(uint64, tag = "8")]
    pub init_timeout_ms: u64,
    /// Slot of a model on its device: one of the slots that the process was given besides its own
    /// (`NodePlan::also`). 0 = the first that is free.
    #[prost(uint32, tag = "9")]
    pub slot: u32,
    /// An input that is set as an output is copied into the own partition first.
    #[prost(bool, tag = "10")]
    pub copy_forwarded: bool,
}
