//! Constant folding: what depends on constants and shapes alone is computed when the model is
//! compiled, by the kernels that would have run.

use bytes::Bytes;
use npu::aligned::AlignedBytes;
use npu::ops::Op;
use npu::tensor::{Fault, TensorInfo, TensorList, run_into};

use crate::typed::{TensorIndex, TypedTensor};

/// Largest result that is computed in advance, in bytes: it becomes a part of the program.
const FOLDED_MAX: usize = 256 << 20;

/// The values of an op's outputs, if they are the same in every run.
pub(crate) fn fold(
    op: &dyn Op,
    tensors: &[TypedTensor],
    operands: &[TensorIndex],
    infos: &[TensorInfo],
) -> Result<Option<Vec<Bytes>>, Fault> {
    let shape_only = op.reads_shape_only();
    let constant = operands.iter().all(|index| tensors[*index].value.is_some());
    if !(constant || shape_only) || infos.iter().any(|info| info.bytes() > FOLDED_MAX) {
        return Ok(None);
    }
    // A view of a constant is the constant.
    if let (true, Some(value)) = (op.is_view(), operands.first()) {
        return Ok(tensors[*value].value.clone().map(|value| vec![value]));
    }
    let values: Vec<(TensorInfo, AlignedBytes)> = operands
        .iter()
        .map(|index| {
            let TypedTensor { info, value, .. } = &tensors[*index];
            let bytes = value.as_ref().filter(|_| !shape_only);
            (*info, bytes.map(|bytes| AlignedBytes::copy_of(bytes)).unwrap_or_default())
        })
        .collect();
    let inputs: Vec<(TensorInfo, &[u8])> =
        values.iter().map(|(info, bytes)| (*info, &bytes[..])).collect();
    let read: Vec<TensorInfo> = values.iter().map(|(info, _)| *info).collect();
    let scratch = op.scratch_bytes(&read, &infos[0]);
    if scratch > FOLDED_MAX {
        return Ok(None);
    }
    let mut scratch = AlignedBytes::zeroed(scratch);
    let mut results: Vec<(TensorInfo, AlignedBytes)> =
        infos.iter().map(|info| (*info, AlignedBytes::zeroed(info.bytes()))).collect();
    run_into(op, &TensorList(&inputs), &mut results, &mut scratch)?;
    Ok(Some(results.into_iter().map(|(_, bytes)| Bytes::from_owner(bytes)).collect()))
}
