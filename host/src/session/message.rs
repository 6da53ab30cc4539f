//! What goes in and what comes out: tensors to feed, events to fetch.

use std::sync::Arc;

use executor_core::abi::{DataType, MsgInfo, RuntimeTensorDesc, TENSOR_DESC_SIZE};
use executor_core::error::Code;
use executor_core::mbuf::Mbuf;
use executor_rt::payload;

use super::Shared;
use crate::graph::DType;

/// A tensor in the user's memory. Feeding copies it once into the host's partition.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub shape: Vec<i64>,
    /// Elements, row-major, native byte order.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// A vector of bytes.
    #[must_use]
    pub fn bytes(bytes: Vec<u8>) -> Tensor {
        let len = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        Tensor { dtype: DType::Uint8, shape: vec![len], bytes }
    }
}

/// One transaction to feed: a tensor for each graph input, in the graph's order, and what travels
/// with it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Feed {
    /// One tensor a graph input.
    pub tensors: Vec<Tensor>,
    /// The id; `None` takes the next one.
    pub trans_id: Option<u64>,
    /// Up to 64 bytes that every node and the fetcher can read.
    pub user_data: Vec<u8>,
    /// Flow flags (`FlowFlags` bits), passed along.
    pub flags: u32,
    /// Sets the end-of-sequence byte.
    pub end_of_sequence: bool,
    /// Start and end time in the user's unit.
    pub times: (u64, u64),
    /// Milliseconds until this id is answered with DEADLINE; `None` takes the session's setting.
    pub deadline_ms: Option<u32>,
}

impl Feed {
    /// A feed of these tensors with nothing else.
    #[must_use]
    pub fn of(tensors: Vec<Tensor>) -> Feed {
        Feed { tensors, ..Feed::default() }
    }
}

/// The terminal event of one id on one output port.
#[derive(Debug)]
pub struct Event {
    /// The id.
    pub trans_id: u64,
    /// Graph output, in the graph's order.
    pub port: usize,
    /// Microseconds from feed to this event; 0 for answers made by the session.
    pub micros: u64,
    /// Data or a code.
    pub outcome: Result<Output, Failure>,
}

/// Why an id has no data on a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// Node it came from, where known.
    pub node: Option<String>,
    /// In words.
    pub reason: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "node `{node}`: ")?;
        }
        write!(f, "{}", self.reason)?;
        write!(f, " [{}]", self.code.0)
    }
}

/// A fetched message: read in place, given back when dropped.
pub struct Output {
    shared: Arc<Shared>,
    mbuf: Option<Mbuf>,
    info: MsgInfo,
    desc: Option<RuntimeTensorDesc>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Output {
    pub(super) fn new(shared: Arc<Shared>, mbuf: Mbuf, info: MsgInfo) -> Output {
        let access = shared.attached.group.memory.mbuf(&mbuf);
        let desc = access.as_ref().and_then(payload::tensor_desc);
        Output { shared, mbuf: Some(mbuf), info, desc }
    }

    /// `MsgInfo` of the message.
    #[must_use]
    pub fn info(&self) -> &MsgInfo {
        &self.info
    }

    /// True when the message carries no payload.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.info.is_null_data()
    }

    /// True when the end-of-sequence byte is set.
    #[must_use]
    pub fn is_end_of_sequence(&self) -> bool {
        self.access().is_some_and(|access| access.is_eos())
    }

    /// The 64 bytes of user data.
    #[must_use]
    pub fn user_data(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        if let Some(access) = self.access() {
            bytes.copy_from_slice(&access.head_bytes()[..64]);
        }
        bytes
    }

    /// Element type of the tensor.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        let dtype = self.desc.as_ref().and_then(|desc| i32::try_from(desc.dtype).ok());
        dtype.map_or(DataType::UNDEFINED, DataType)
    }

    /// Dimensions; empty for a scalar, raw bytes or an impossible rank.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        self.desc.as_ref().and_then(RuntimeTensorDesc::dims).unwrap_or(&[])
    }

    /// The tensor's bytes, in shared memory: no copy.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let Some(mbuf) = &self.mbuf else { return &[] };
        // The payload lives as long as this object holds the mbuf.
        self.shared.payload(mbuf).get(TENSOR_DESC_SIZE..).map_or(&[], |data| {
            let size = self.data_type().byte_size(self.shape());
            let size = size.and_then(|n| usize::try_from(n).ok()).unwrap_or(data.len());
            data.get(..size).unwrap_or(data)
        })
    }

    fn access(&self) -> Option<executor_core::mbuf::MbufRef<'static>> {
        self.shared.attached.group.memory.mbuf(self.mbuf.as_ref()?)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(mbuf) = self.mbuf.take() {
            self.shared.give_back(mbuf);
        }
    }
}
