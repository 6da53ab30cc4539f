//! Tensors of cases: made of values, and compared.

use dflow::{DType, Tensor};

use super::{Step, Stop, Values};

/// A tensor of floats.
#[must_use]
pub fn floats(dims: &[i64], values: &[f32]) -> Tensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor { dtype: DType::Float32, shape: dims.to_vec(), bytes }
}

/// A tensor of `int32`.
#[must_use]
pub fn ints(dims: &[i64], values: &[i32]) -> Tensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor { dtype: DType::Int32, shape: dims.to_vec(), bytes }
}

/// A tensor of `int64`.
#[must_use]
pub fn longs(dims: &[i64], values: &[i64]) -> Tensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor { dtype: DType::Int64, shape: dims.to_vec(), bytes }
}

/// The values of a tensor of floats.
#[must_use]
pub fn as_floats(tensor: &Tensor) -> Vec<f32> {
    tensor.bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Tensors under their names.
#[must_use]
pub fn named<const N: usize>(values: [(&str, Tensor); N]) -> Values {
    values.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect()
}

/// The tensor of a name.
///
/// # Errors
/// There is none.
pub fn of<'a>(values: &'a Values, name: &str) -> Step<&'a Tensor> {
    let found = values.iter().find(|(own, _)| own == name).map(|(_, tensor)| tensor);
    found.ok_or_else(|| Stop::failed(format_args!("no tensor `{name}`")))
}

/// Compares one tensor; floats may be `tolerance` apart, of values above 1: relative. 0 asks for
/// the same bits.
///
/// # Errors
/// The first difference.
pub fn compare(name: &str, found: &Tensor, expected: &Tensor, tolerance: f64) -> Step {
    let kind = |tensor: &Tensor| format!("{}{:?}", tensor.dtype, tensor.shape);
    if (found.dtype, &found.shape) != (expected.dtype, &expected.shape) {
        let (found, expected) = (kind(found), kind(expected));
        return Err(Stop::failed(format_args!("`{name}` is {found}, expected {expected}")));
    }
    if found.bytes == expected.bytes {
        return Ok(());
    }
    if found.bytes.len() != expected.bytes.len() {
        let (found, expected) = (found.bytes.len(), expected.bytes.len());
        return Err(Stop::failed(format_args!("`{name}`: {found} bytes, expected {expected}")));
    }
    if tolerance == 0.0 || expected.dtype != DType::Float32 {
        let at = found.bytes.iter().zip(&expected.bytes).position(|(a, b)| a != b).unwrap_or(0);
        let width = usize::try_from(expected.dtype.element_bytes()).unwrap_or(1);
        let first = at / width * width;
        let bytes = |tensor: &Tensor| format!("{:02x?}", &tensor.bytes[first..first + width]);
        let (index, found, expected) = (at / width, bytes(found), bytes(expected));
        let text = format!("`{name}`[{index}] has the bytes {found}, expected {expected}");
        return Err(Stop::Failed(text));
    }
    let pairs = as_floats(found).into_iter().zip(as_floats(expected)).enumerate();
    for (index, (found, expected)) in pairs {
        let distance = (f64::from(found) - f64::from(expected)).abs();
        let allowed = tolerance * f64::from(expected).abs().max(1.0);
        // Not `>`: a NaN is no value that was expected.
        if found.to_bits() != expected.to_bits() && (distance.is_nan() || distance > allowed) {
            let text = format!("`{name}`[{index}] is {found}, expected {expected} ± {allowed:e}");
            return Err(Stop::Failed(text));
        }
    }
    Ok(())
}

/// Compares all tensors that are expected; more must not be there.
///
/// # Errors
/// As [`compare`].
pub fn compare_all(found: &Values, expected: &Values, tolerance: f64) -> Step {
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Err(Stop::failed(format_args!("{found} outputs, expected {expected}")));
    }
    expected.iter().try_for_each(|(name, own)| compare(name, of(found, name)?, own, tolerance))
}
