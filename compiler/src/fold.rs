//! Constant folding: what depends on constants and shapes alone is computed when the model is
//! compiled, by the kernels that would have run.

use bytes::Bytes;
use npu::aligned::{AlignedBytes, is_aligned};
use npu::ops::Op;
use npu::tensor::{Fault, TensorInfo, TensorList, run_into};

use crate::typed::{TensorIndex, TypedTensor};

/// Most bytes of all results that are computed in advance: they become a part of the program.
const BYTES_MAX: usize = 256 << 20;

/// Most floating-point operations that are spent on them: a few seconds.
const FLOPS_MAX: u64 = 1 << 33;

/// A result of no more bytes is always computed: shapes depend on such ones, and there is one a
/// node at most.
const SMALL: usize = 4096;

/// What may still be computed in advance. A node that exceeds it stays a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) bytes: usize,
    pub(crate) flops: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: BYTES_MAX, flops: FLOPS_MAX }
    }
}

impl Budget {
    /// All there is.
    pub(crate) const UNLIMITED: Self = Self { bytes: usize::MAX, flops: u64::MAX };

    /// Takes what a result costs; whether there was so much.
    fn take(&mut self, bytes: usize, flops: u64) -> bool {
        let bytes = if bytes <= SMALL { 0 } else { bytes };
        let left = self.bytes.checked_sub(bytes).zip(self.flops.checked_sub(flops));
        if let Some((bytes, flops)) = left {
            *self = Self { bytes, flops };
        }
        left.is_some()
    }
}

/// The values of an op's outputs, if they are the same in every run and the budget allows it.
pub(crate) fn fold(
    op: &dyn Op,
    tensors: &mut [TypedTensor],
    operands: &[TensorIndex],
    infos: &[TensorInfo],
    budget: &mut Budget,
) -> Result<Option<Vec<Bytes>>, Fault> {
    let shape_only = op.reads_shape_only();
    let constant = operands.iter().all(|index| tensors[*index].value.is_some());
    if !(constant || shape_only) {
        return Ok(None);
    }
    // A view of a constant is the constant.
    if let (true, Some(value)) = (op.is_view(), operands.first()) {
        return Ok(tensors[*value].value.clone().map(|value| vec![value]));
    }
    let read: Vec<TensorInfo> = operands.iter().map(|index| tensors[*index].info).collect();
    let scratch = op.scratch_bytes(&read, &infos[0]);
    let bytes = infos.iter().map(|info| info.bytes()).fold(0, usize::saturating_add);
    if scratch > BYTES_MAX || !budget.take(bytes, op.flops(&read, &infos[0])) {
        return Ok(None);
    }
    let values: Vec<Bytes> = operands
        .iter()
        .filter(|_| !shape_only)
        .map(|index| aligned(&mut tensors[*index].value))
        .collect();
    let values = values.iter().map(|bytes| &bytes[..]).chain(std::iter::repeat(&[][..]));
    let inputs: Vec<(TensorInfo, &[u8])> = read.iter().copied().zip(values).collect();
    let mut scratch = AlignedBytes::zeroed(scratch);
    let mut results: Vec<(TensorInfo, AlignedBytes)> =
        infos.iter().map(|info| (*info, AlignedBytes::zeroed(info.bytes()))).collect();
    run_into(op, &TensorList(&inputs), &mut results, &mut scratch, None)?;
    Ok(Some(results.into_iter().map(|(_, bytes)| Bytes::from_owner(bytes)).collect()))
}

/// The value where kernels can read it; one of the file is copied there once.
fn aligned(value: &mut Option<Bytes>) -> Bytes {
    let own = value.take().unwrap_or_default();
    let own = if is_aligned(&own) { own } else { Bytes::from_owner(AlignedBytes::copy_of(&own)) };
    *value = Some(own.clone());
    own
}
