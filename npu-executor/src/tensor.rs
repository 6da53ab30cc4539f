//! Tensors in a message: `desc|data`, or `desc|data|desc|data…` for a fused one (executor-deployer
//! §0.4). Every number in it is a claim until it fits the bytes that are there.

use executor_core::abi::{DataType, MAX_DIMS, RuntimeTensorDesc, TENSOR_DESC_SIZE};
use npu::tensor::TensorInfo;

/// Offset of a descriptor's field.
macro_rules! at {
    ($field:ident) => {
        core::mem::offset_of!(RuntimeTensorDesc, $field)
    };
}

/// What is wrong with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Malformed {
    /// Fewer bytes than a descriptor has, or fewer tensors than are read.
    Short,
    /// The rank is no rank, a dim is negative, or there are too many elements.
    Shape,
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Malformed::Short => "the message ends before the tensor's descriptor does",
            Malformed::Shape => "the tensor's descriptor has an impossible shape",
        })
    }
}

fn word(desc: &[u8], at: usize) -> i64 {
    let bytes = desc.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    i64::from_le_bytes(bytes.unwrap_or_default())
}

/// Tensor `index` of a message: what it says of itself, and its bytes: as many as its descriptor
/// says, or for the only one all that follow.
pub(crate) fn read(message: &[u8], index: usize) -> Result<(TensorInfo, &[u8]), Malformed> {
    let mut rest = message;
    for _ in 0..index {
        let (desc, data) = rest.split_at_checked(TENSOR_DESC_SIZE).ok_or(Malformed::Short)?;
        rest = data.get(size(desc)..).ok_or(Malformed::Short)?;
    }
    let (desc, data) = rest.split_at_checked(TENSOR_DESC_SIZE).ok_or(Malformed::Short)?;
    let rank = usize::try_from(word(desc, at!(shape))).map_err(|_| Malformed::Shape)?;
    if rank > MAX_DIMS {
        return Err(Malformed::Shape);
    }
    let mut dims = [0; MAX_DIMS];
    for (index, dim) in dims.iter_mut().enumerate() {
        *dim = word(desc, at!(shape) + 8 + 8 * index);
    }
    let dims = dims.get(..rank).unwrap_or_default();
    let dtype = i32::try_from(word(desc, at!(dtype))).map_err(|_| Malformed::Shape)?;
    let info = TensorInfo::from_i64(DataType(dtype), dims).map_err(|_| Malformed::Shape)?;
    Ok((info, data))
}

/// Bytes behind a descriptor.
fn size(desc: &[u8]) -> usize {
    usize::try_from(word(desc, at!(data_size))).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(parts: &[(&[i64], u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (dims, size) in parts {
            let mut desc = vec![0; TENSOR_DESC_SIZE];
            let mut put = |at: usize, value: i64| {
                desc[at..at + 8].copy_from_slice(&value.to_le_bytes());
            };
            put(at!(dtype), i64::from(DataType::INT64.0));
            put(at!(shape), dims.len().try_into().unwrap());
            for (index, dim) in dims.iter().enumerate() {
                put(at!(shape) + 8 + 8 * index, *dim);
            }
            put(at!(data_size), size.cast_signed());
            bytes.extend(desc);
            bytes.extend(std::iter::repeat_n(7, usize::try_from(*size).unwrap_or(0).min(64)));
        }
        bytes
    }

    #[test]
    fn fused_tensors_are_found_by_the_sizes_before_them() {
        let bytes = message(&[(&[2], 16), (&[1, 3], 24)]);
        let (info, data) = read(&bytes, 1).unwrap();
        assert_eq!((info.shape.dims(), data.len()), (&[1, 3][..], 24));
        let (info, data) = read(&bytes, 0).unwrap();
        assert_eq!((info.shape.dims(), data.len()), (&[2][..], 16 + TENSOR_DESC_SIZE + 24));
        assert_eq!(read(&bytes, 2), Err(Malformed::Short));
    }

    #[test]
    fn wild_numbers_are_refused() {
        assert_eq!(read(&[], 0), Err(Malformed::Short));
        assert_eq!(read(&message(&[(&[1], 8)])[..1023], 0), Err(Malformed::Short));
        assert_eq!(read(&message(&[(&[-1], 8)]), 0), Err(Malformed::Shape));
        assert_eq!(read(&message(&[(&[i64::MAX, 2], 8)]), 0), Err(Malformed::Shape));
        let mut bytes = message(&[(&[1], u64::MAX)]);
        assert_eq!(read(&bytes, 1), Err(Malformed::Short), "a size beyond the message");
        for rank in [-1i64, 33, i64::MIN] {
            bytes[at!(shape)..at!(shape) + 8].copy_from_slice(&rank.to_le_bytes());
            assert_eq!(read(&bytes, 0), Err(Malformed::Shape));
        }
    }
}
