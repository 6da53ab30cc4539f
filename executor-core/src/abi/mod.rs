//! Byte layouts that cross process borders, with their offsets asserted at compile time.
//!
//! Three kinds: what the specification fixes ([`MsgInfo`], [`RuntimeTensorDesc`], the 256-byte mbuf
//! head), what this project fixes ([`control`]: words of the control segment), and the element
//! types of a tensor ([`DataType`]). All integers are little-endian with native alignment. No field
//! has an invalid bit pattern, so any bytes a peer leaves are a value. `docs/layout.md` repeats the
//! tables.

pub mod control;
#[cfg(not(loom))]
mod control_offsets;
mod data_type;
pub mod head;
mod msg_info;
mod tensor;

pub use data_type::DataType;
pub use msg_info::{DataFlag, FlowFlags, MsgInfo, MsgType};
pub use tensor::{FORMAT_ND, MAX_DIMS, RuntimeTensorDesc, TENSOR_DESC_SIZE};

/// Version of every layout in this module and of what its words mean; part of the layout hash that
/// attach checks. It grows with either, so that programs of two versions refuse each other.
pub const ABI_VERSION: u32 = 2;
