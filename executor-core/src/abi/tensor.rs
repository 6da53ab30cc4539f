//! `RuntimeTensorDesc`: 1024 bytes before the payload of every tensor message
//! (executor-deployer §0.4, udf §2.3).
//!
//! ```text
//! off size field            meaning
//!   0    8 data_addr        0 when the payload follows the descriptor
//!   8    8 data_offset_size 0
//!  16    8 dtype            DataType value (i64)
//!  24  264 shape            [0] = number of dims 0..=32, [1..] = dims (i64[33])
//! 288  264 original_shape   same convention
//! 552    8 format           2 = ND; the reference writes 3, see docs/compat.md
//! 560    8 sub_format       0
//! 568    8 data_size        bytes behind this descriptor
//! 576  448 reserved         0
//! ```

use super::DataType;
use static_assertions::{assert_eq_size, const_assert_eq};

/// Most dimensions of a tensor.
pub const MAX_DIMS: usize = 32;
/// Bytes of a descriptor; the payload starts there.
pub const TENSOR_DESC_SIZE: usize = 1024;
/// `format` of a tensor without a layout of its own.
pub const FORMAT_ND: i64 = 2;

/// The descriptor, packed to 1024 bytes. All bit patterns are values; check before use.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RuntimeTensorDesc {
    /// Address of the data, 0 when it follows the descriptor.
    pub data_addr: u64,
    /// Unused, 0.
    pub data_offset_size: i64,
    /// [`DataType`] value.
    pub dtype: i64,
    /// Number of dims, then the dims.
    pub shape: [i64; MAX_DIMS + 1],
    /// Number of dims, then the dims, before any padding; zeros when a function wrote it.
    pub original_shape: [i64; MAX_DIMS + 1],
    /// Data format number.
    pub format: i64,
    /// Sub-format number.
    pub sub_format: i64,
    /// Bytes of data behind the descriptor.
    pub data_size: u64,
    /// Zero.
    pub reserved: [u8; 448],
}

assert_eq_size!(RuntimeTensorDesc, [u8; TENSOR_DESC_SIZE]);
const_assert_eq!(core::mem::offset_of!(RuntimeTensorDesc, data_addr), 0);
const_assert_eq!(core::mem::offset_of!(RuntimeTensorDesc, data_offset_size), 8);
const_assert_eq!(core::mem::offset_of!(RuntimeTensorDesc, dtype), 16);
const_assert_eq!(core::mem::offset_of!(RuntimeTensorDesc, shape), 24);
const_assert_eq!(core::mem::offset_of!(RuntimeTensorDesc, original_shape), 288);
const_assert_eq!(core::mem::offset_of!(RuntimeTensorDesc, format), 552);
const_assert_eq!(core::mem::offset_of!(RuntimeTensorDesc, sub_format), 560);
const_assert_eq!(core::mem::offset_of!(RuntimeTensorDesc, data_size), 568);
const_assert_eq!(core::mem::offset_of!(RuntimeTensorDesc, reserved), 576);

impl RuntimeTensorDesc {
    /// All zero: rank 0, `DT_FLOAT`.
    pub const ZERO: RuntimeTensorDesc = RuntimeTensorDesc {
        data_addr: 0,
        data_offset_size: 0,
        dtype: 0,
        shape: [0; MAX_DIMS + 1],
        original_shape: [0; MAX_DIMS + 1],
        format: 0,
        sub_format: 0,
        data_size: 0,
        reserved: [0; 448],
    };

    /// A descriptor for `dims`; `None` if there are more than 32 dims, one is negative, the type is
    /// unknown or the byte size overflows (udf §1.2, §1.14).
    #[must_use]
    pub fn new(dtype: DataType, dims: &[i64]) -> Option<Self> {
        let data_size = dtype.byte_size(dims)?;
        let mut desc = Self::ZERO;
        desc.dtype = i64::from(dtype.0);
        desc.format = FORMAT_ND;
        desc.data_size = data_size;
        desc.set_dims(dims)?;
        Some(desc)
    }

    /// The descriptor of a message without payload: shape `[1, 0]`, size 0 (executor-deployer
    /// §3.2).
    #[must_use]
    pub fn empty() -> Self {
        let mut desc = Self::ZERO;
        desc.format = FORMAT_ND;
        for shape in [&mut desc.shape, &mut desc.original_shape] {
            if let Some(rank) = shape.first_mut() {
                *rank = 1;
            }
        }
        desc
    }

    /// The dims, or `None` when the rank is not 0..=32.
    #[must_use]
    pub fn dims(&self) -> Option<&[i64]> {
        let (rank, dims) = self.shape.split_first()?;
        dims.get(..usize::try_from(*rank).ok()?)
    }

    /// Replaces the dims; `None` (and no change) for more than 32.
    pub fn set_dims(&mut self, dims: &[i64]) -> Option<()> {
        let (rank, rest) = self.shape.split_first_mut()?;
        rest.get_mut(..dims.len())?.copy_from_slice(dims);
        *rank = i64::try_from(dims.len()).ok()?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::{DataType, RuntimeTensorDesc};

    #[test]
    fn dims_round_trip_and_bounds() {
        let desc = RuntimeTensorDesc::new(DataType::INT32, &[2, 3]).unwrap();
        assert_eq!(desc.dims(), Some(&[2, 3][..]));
        assert_eq!(desc.data_size, 24);
        assert!(RuntimeTensorDesc::new(DataType::INT32, &[1; 32]).is_some());
        assert!(RuntimeTensorDesc::new(DataType::INT32, &[1; 33]).is_none());
        assert!(RuntimeTensorDesc::new(DataType::INT32, &[1, -2, 3]).is_none());
        let mut bad = desc;
        for rank in [-1, 33, i64::MAX] {
            bad.shape[0] = rank;
            assert_eq!(bad.dims(), None);
        }
        assert_eq!(RuntimeTensorDesc::empty().dims(), Some(&[0][..]));
    }
}
