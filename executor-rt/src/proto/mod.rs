//! Control messages and model files: hand-written protobuf types and bounded decoding.
//!
//! It is not the message server ([`crate::server`]); nothing here keeps state. Every decoder bounds
//! size and element counts before it builds anything, so bytes from anywhere end as a value or as a
//! [`DecodeError`], never as a panic or as unbounded memory.

pub mod deployer;
pub mod extension;
pub mod status;
pub mod udf;
pub mod wire;

use core::fmt;

use executor_core::error::Code;
use prost::Message;

pub use deployer::{
    BatchLoadModelMessage, ClearModelRequest, DataflowExceptionNotify,
    DataflowExceptionNotifyRequest, ExecutorRequest, ExecutorRequestType, ExecutorResponse,
    InputAlignAttrs, LoadModelRequest, ModelQueuesAttrs, Options, QueueAttrs, UnloadModelRequest,
    UpdateProfRequest,
};
pub use extension::{DestinationGroup, InputAlignTime, NodeOptions, OutputDestinations};
pub use status::{DataflowException, QueueStatus, SubmodelStatus};
pub use udf::{ArrayValue, AttrKind, AttrValue, BufCfg, ListInt, ListListInt, ListUint32};
pub use udf::{UdfDef, UdfModelDef};

/// Largest control message and load file, in bytes.
pub const CONTROL_BYTES_MAX: usize = 4 << 20;
/// Largest UDF model file, in bytes: a package of 200 MiB (executor-deployer §1.9) and its frame.
pub const MODEL_BYTES_MAX: usize = 208 << 20;
/// Most models in one load.
pub const MODELS_MAX: usize = 1024;
/// Most definitions decoded out of a model file (the loader accepts exactly one).
pub const UDF_DEFS_MAX: usize = 16;
/// Longest exception context, in bytes: one mbuf head.
pub const EXCEPTION_CONTEXT_MAX: usize = 256;

/// Why bytes were not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// More bytes than the limit.
    TooLarge {
        /// Bytes found.
        found: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// More elements than the limit.
    TooMany {
        /// Elements found.
        found: usize,
        /// Elements allowed.
        limit: usize,
    },
    /// Not protobuf, truncated, or a field has another type.
    Malformed {
        /// Bytes found.
        found: usize,
    },
}

impl DecodeError {
    /// The code that the sender sees.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::TooLarge { .. } | Self::TooMany { .. } => Code::TOO_LARGE,
            Self::Malformed { .. } => Code::BAD_MESSAGE,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { found, limit } => {
                write!(f, "message of {found} bytes, at most {limit} are allowed")
            }
            Self::TooMany { found, limit } => {
                write!(f, "message with {found} elements, at most {limit} are allowed")
            }
            Self::Malformed { found } => {
                write!(f, "{found} bytes that are no valid message (truncated or garbage)")
            }
        }
    }
}

impl core::error::Error for DecodeError {}

/// Decodes one request of the request queue.
///
/// # Errors
/// [`DecodeError`], with [`CONTROL_BYTES_MAX`] and [`MODELS_MAX`] as limits.
pub fn decode_request(bytes: &[u8]) -> Result<ExecutorRequest, DecodeError> {
    decode(bytes, CONTROL_BYTES_MAX, &[2, 5], MODELS_MAX)
}

/// Decodes a load file (udf Appendix B, "batch file").
///
/// # Errors
/// [`DecodeError`], with [`CONTROL_BYTES_MAX`] and [`MODELS_MAX`] as limits.
pub fn decode_load_file(bytes: &[u8]) -> Result<BatchLoadModelMessage, DecodeError> {
    decode(bytes, CONTROL_BYTES_MAX, &[5], MODELS_MAX)
}

/// Decodes a UDF model file.
///
/// # Errors
/// [`DecodeError`], with [`MODEL_BYTES_MAX`] and [`UDF_DEFS_MAX`] as limits.
pub fn decode_udf_model(bytes: &[u8]) -> Result<UdfModelDef, DecodeError> {
    decode(bytes, MODEL_BYTES_MAX, &[1], UDF_DEFS_MAX)
}

/// Decodes a response.
///
/// # Errors
/// [`DecodeError`], with [`CONTROL_BYTES_MAX`] as limit.
pub fn decode_response(bytes: &[u8]) -> Result<ExecutorResponse, DecodeError> {
    decode(bytes, CONTROL_BYTES_MAX, &[2], usize::MAX)
}

/// Decodes a status message.
///
/// # Errors
/// [`DecodeError`], with [`CONTROL_BYTES_MAX`] as limit.
pub fn decode_status(bytes: &[u8]) -> Result<SubmodelStatus, DecodeError> {
    decode(bytes, CONTROL_BYTES_MAX, &[2], usize::MAX)
}

fn decode<M: Message + Default>(
    bytes: &[u8],
    bytes_max: usize,
    counted: &[u32],
    count_max: usize,
) -> Result<M, DecodeError> {
    let size = bytes.len();
    if size > bytes_max {
        return Err(DecodeError::TooLarge { found: size, limit: bytes_max });
    }
    let malformed = DecodeError::Malformed { found: size };
    let found = wire::count(bytes, counted).map_err(|_| malformed)?;
    if found > count_max {
        return Err(DecodeError::TooMany { found, limit: count_max });
    }
    M::decode(bytes).map_err(|_| malformed)
}

/// The body of a request, in the priority of executor-deployer §1.7.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Body<'a> {
    /// Load one or many models.
    Load(&'a BatchLoadModelMessage),
    /// Unload a root model.
    Unload(UnloadModelRequest),
    /// Variable memory set-up, opaque.
    SyncVar(&'a [u8]),
    /// Stop, or clear and restart.
    Clear(ClearModelRequest),
    /// Exception by trans_id.
    Exception(&'a DataflowExceptionNotifyRequest),
    /// Start or stop profiling.
    Profiling(&'a UpdateProfRequest),
}

/// Picks the body: fields 2, 5, 1, 6, 7, 8 in this order; the others are ignored.
///
/// A well-behaved sender sets one (they are a `oneof`); with several the first in the order counts.
///
/// # Errors
/// [`Code::UNSUPPORTED`] when none is there (also when only the unused field 4 is).
pub fn dispatch(request: &ExecutorRequest) -> Result<Body<'_>, Code> {
    if let Some(load) = &request.batch_load_model_message {
        Ok(Body::Load(load))
    } else if let Some(unload) = request.unload_model_message {
        Ok(Body::Unload(unload))
    } else if let Some(sync) = &request.sync_var_manager_message {
        Ok(Body::SyncVar(sync))
    } else if let Some(clear) = request.clear_model_message {
        Ok(Body::Clear(clear))
    } else if let Some(exception) = &request.exception_notify_request {
        Ok(Body::Exception(exception))
    } else if let Some(profiling) = &request.update_prof_message {
        Ok(Body::Profiling(profiling))
    } else {
        Err(Code::UNSUPPORTED)
    }
}

#[cfg(test)]
mod tests;
