//! GlobalAveragePool: the mean of each feature map.

use crate::DataType;
use crate::isa::{self, LANES, Routine, Simd};
use crate::ops::{Imported, Op, OpEntry, OpError, types};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "GlobalAveragePool",
    code: 5,
    versions: &[1, 22],
    attributes: &[],
    inputs: (1, 1),
    outputs: 1,
    operands: (1, 1),
    types: &[(DataType::FLOAT, 1)],
    widened: &types::halves(22),
    import: |_| Ok(Imported::first(GlobalAveragePool)),
    decode: |_| Ok(Box::new(GlobalAveragePool)),
    ..OpEntry::BASE
};

/// The mean of each feature map.
#[derive(Clone, Copy, Debug)]
pub struct GlobalAveragePool;

impl Op for GlobalAveragePool {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        let dims = shape.dims();
        if dims.len() < 3 || dims[2..].contains(&0) {
            let what = format!("{shape} has no feature maps; expected [N, C, D1, …], none empty");
            return Err(OpError::shape(what));
        }
        let mut means = [1; RANK_MAX];
        means[..2].copy_from_slice(&dims[..2]);
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&means[..dims.len()])?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = inputs.dims(0)[2..].iter().product::<usize>();
        isa::run(Means { input: inputs.elements(0)?, size, out: output.elements()? });
        Ok(())
    }

    fn flops(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        inputs[0].shape.elements() as u64
    }
}

struct Means<'a> {
    input: &'a [f32],
    size: usize,
    out: &'a mut [f32],
}

impl Routine for Means<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        #[expect(clippy::cast_precision_loss, reason = "a count of elements")]
        let count = self.size as f32;
        for (mean, map) in self.out.iter_mut().zip(self.input.chunks_exact(self.size)) {
            let (chunks, rest) = map.as_chunks::<LANES>();
            let (fours, ones) = chunks.as_chunks::<4>();
            let mut sums = [simd.splat(0.0); 4];
            for four in fours {
                for (sum, chunk) in sums.iter_mut().zip(four) {
                    *sum = simd.add(*sum, simd.load(chunk));
                }
            }
            for chunk in ones {
                sums[0] = simd.add(sums[0], simd.load(chunk));
            }
            sums[1] = simd.add(sums[1], simd.load_part(rest));
            let sum = simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3]));
            *mean = simd.sum(sum) / count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, assert_close, float, noise};

    #[test]
    fn of_one_two_and_three_dims() {
        let line = Case::new(&ENTRY, 1).input(float(&[1, 2, 2], &[1.0, 3.0, -1.0, -2.0]));
        assert_close(&line.run(), &float(&[1, 2, 1], &[2.0, -1.5]), 1e-6);
        let cube = Case::new(&ENTRY, 22).input(float(&[1, 1, 2, 2, 1], &[1.0, 2.0, 3.0, 6.0]));
        assert_close(&cube.run(), &float(&[1, 1, 1, 1, 1], &[3.0]), 1e-6);
        let values = noise(2 * 7 * 7, 5);
        let means: Vec<f32> = values.chunks(49).map(|map| map.iter().sum::<f32>() / 49.0).collect();
        let plane = Case::new(&ENTRY, 15).input(float(&[2, 1, 7, 7], &values));
        assert_close(&plane.run(), &float(&[2, 1, 1, 1], &means), 1e-5);
    }

    #[test]
    fn what_is_refused() {
        let flat = Case::new(&ENTRY, 1).input(float(&[1, 2], &[1.0, 3.0]));
        assert!(flat.refused().contains("[1, 2] has no feature maps"));
        let empty = Case::new(&ENTRY, 1).input(float(&[1, 2, 0], &[]));
        assert!(empty.refused().contains("none empty"));
    }
}
