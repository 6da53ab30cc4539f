//! Constants: their bytes, or lists of values whose last one is repeated.

use npu::DataType;
use npu::ops::of_onnx;
use npu::shape::Shape;
use npu::tensor::{TensorInfo, element_size};

use super::proto::{DATA_TYPES, TensorProto, TensorShapeProto};
use crate::import::{Constant, TYPES};

/// Most bytes of all values that a file says by repeating one.
const REPEATED_MAX: usize = 256 << 20;

/// What may still be repeated.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(REPEATED_MAX)
    }
}

/// Number in ONNX and name of a type.
pub(super) fn type_of(number: i32) -> (i32, String) {
    let known = DATA_TYPES.iter().find(|(own, ..)| *own == number);
    known.map_or_else(
        || (-1, format!("type {number}")),
        |(_, name, onnx)| (*onnx, (*name).to_owned()),
    )
}

/// A type that has kernels.
pub(super) fn data_type(number: i32) -> Result<DataType, String> {
    let (onnx, name) = type_of(number);
    of_onnx(onnx).ok_or_else(|| format!("is {name}; supported: {TYPES}"))
}

fn shape(proto: Option<&TensorShapeProto>) -> Result<Shape, String> {
    let dims = proto.map(|shape| &shape.dim[..]).unwrap_or_default();
    if proto.is_some_and(|shape| shape.unknown_rank) {
        return Err("its number of dims is not known".to_owned());
    }
    let dims: Vec<i64> = dims.iter().map(|dim| dim.size).collect();
    Shape::from_i64(&dims).map_err(|error| error.to_string())
}

/// A constant with all its bytes.
pub(super) fn constant(tensor: &TensorProto, budget: &mut Budget) -> Result<Constant, String> {
    let info = TensorInfo::new(data_type(tensor.dtype)?, shape(tensor.tensor_shape.as_ref())?);
    if !tensor.tensor_content.is_empty() {
        let (found, bytes) = (tensor.tensor_content.len(), tensor.tensor_content.clone());
        if found != info.bytes() {
            return Err(format!("{found} bytes; {info} has {}", info.bytes()));
        }
        return Ok(Constant { info, bytes });
    }
    let size = element_size(info.dtype).unwrap_or(1);
    let mut bytes = listed(tensor, info.dtype, size);
    if bytes.len() > info.bytes() {
        return Err(format!("{} values; {info} has {}", bytes.len() / size, info.shape.elements()));
    }
    let missing = info.bytes() - bytes.len();
    budget.0 = budget.0.checked_sub(missing).ok_or_else(|| {
        format!("{info} repeats a value for {missing} bytes; a file may do so for {REPEATED_MAX}")
    })?;
    // The last value stands for all that follow; without any, all are 0.
    let last = bytes.last_chunk::<8>().map(|chunk| chunk[8 - size..].to_vec());
    let last = last.or_else(|| Some(bytes.get(bytes.len().checked_sub(size)?..)?.to_vec()));
    let last = last.unwrap_or_else(|| vec![0; size]);
    bytes.extend(last.iter().cycle().take(missing));
    Ok(Constant { info, bytes: bytes.into() })
}

/// The values of the list that the type has.
fn listed(tensor: &TensorProto, dtype: DataType, size: usize) -> Vec<u8> {
    fn words<T: Copy, const N: usize>(values: &[T], word: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|value| word(*value)).collect()
    }
    let low = |values: &[i32]| -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(size)).collect()
    };
    match dtype {
        DataType::FLOAT => words(&tensor.float_val, f32::to_le_bytes),
        DataType::DOUBLE => words(&tensor.double_val, f64::to_le_bytes),
        DataType::INT64 => words(&tensor.int64_val, i64::to_le_bytes),
        DataType::UINT32 => words(&tensor.uint32_val, u32::to_le_bytes),
        DataType::UINT64 => words(&tensor.uint64_val, u64::to_le_bytes),
        DataType::BOOL => tensor.bool_val.iter().map(|value| u8::from(*value)).collect(),
        DataType::FLOAT16 | DataType::BF16 => low(&tensor.half_val),
        _ => low(&tensor.int_val),
    }
}
