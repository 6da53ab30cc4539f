//! A product with a matrix that is known in advance, packed for it.
#![allow(clippy::needless_range_loop, reason = "a tile is walked by row, block and depth")]

use super::{BLOCK, blocks, entry, sixes, tiles};
use crate::isa::{self, Routine, Simd};
use crate::ops::{Activation, Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const ENTRY: Line = entry("Dense", 1006, 3, |from| {
    Ok(Box::new(Dense { columns: from.size()?, activation: Activation::decode(from)? }))
});

/// `activation(x * weights + bias)`. Operands: x `[…, K]`, weights `[N / 16, K, 16]` as
/// [`pack_columns`] has them, bias `[N / 16, 16]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dense {
    /// N, of which the blocks hold no more than a part of one.
    pub columns: usize,
    /// Applied to the result.
    pub activation: Activation,
}

/// A matrix `[K, N]` as `[N / 16, K, 16]`, zeros behind the last column; gives the dims too.
#[must_use]
pub fn pack_columns([depth, columns]: [usize; 2], matrix: &[f32]) -> ([usize; 3], Vec<f32>) {
    let own = [blocks(columns), depth, BLOCK];
    let mut packed = vec![0.0; own.iter().product()];
    for (index, value) in matrix.iter().enumerate() {
        let (k, column) = (index / columns, index % columns);
        packed[(column / BLOCK * depth + k) * BLOCK + column % BLOCK] = *value;
    }
    (own, packed)
}

impl Op for Dense {
    fn code(&self) -> u16 {
        ENTRY.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.columns);
        self.activation.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [x, w, bias] = [0, 1, 2].map(|index| inputs[index].shape);
        let own = blocks(self.columns);
        let mut dims = x.dims().to_vec();
        let fits = match (dims.last_mut(), w.dims()) {
            (Some(last), [count, depth, BLOCK]) if *last == *depth && *count == own => {
                *last = self.columns;
                true
            }
            _ => false,
        };
        if !fits || bias.dims() != [own, BLOCK] || w.elements() == 0 {
            let what = format!(
                "x is {x}, weights are {w}, the bias is {bias}; \
                 expected […, K], [{own}, K, 16], [{own}, 16]"
            );
            return Err(OpError::shape(what));
        }
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let &[_, depth, _] = inputs.dims(1) else { return Err(Fault::Memory) };
        let x = inputs.elements::<f32>(0)?;
        let (weights, _) = inputs.elements::<f32>(1)?.as_chunks();
        let (bias, _) = inputs.elements::<f32>(2)?.as_chunks();
        let (columns, activation, rows) = (self.columns, self.activation, x.len() / depth);
        let team = output.team;
        let out = output.elements::<f32>()?;
        // Rows together read the weights once; a single one is cut into columns.
        let (tile, cost) = if rows > 1 { (6, columns) } else { (5, BLOCK) };
        let unit = (tile * cost, 2 * depth * tile * cost);
        team::deal(team, out, unit, |first, out| {
            let first = first * tile;
            if rows > 1 {
                let (x, rows) = (&x[first * depth..], out.len() / columns);
                let (bias, strides) = (Some(bias), [depth, columns]);
                isa::run(Rows { x, weights, bias, out, strides, rows, depth, columns, activation });
            } else {
                let columns = out.len();
                let weights = &weights[first * depth..][..blocks(columns) * depth];
                let (bias, strides) = (Some(&bias[first..]), [depth, columns]);
                isa::run(Rows { x, weights, bias, out, strides, rows, depth, columns, activation });
            }
        });
        Ok(())
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let depth = inputs[1].shape.dims().get(1).copied().unwrap_or(0) as u64;
        (2 * depth + 1 + self.activation.flops()) * output.shape.elements() as u64
    }
}

/// All of a product.
pub(super) struct Rows<'a> {
    pub(super) x: &'a [f32],
    /// As many blocks as the columns need.
    pub(super) weights: &'a [[f32; BLOCK]],
    pub(super) bias: Option<&'a [[f32; BLOCK]]>,
    pub(super) out: &'a mut [f32],
    /// From row to row of `x` and of `out`.
    pub(super) strides: [usize; 2],
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    pub(super) activation: Activation,
}

impl Routine for Rows<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let (rows, blocks) = (self.rows, self.weights.len() / self.depth);
        if S::REGISTERS >= 8 && rows == 1 {
            tiles!(blocks, [5, 1], |block, B| self.tile::<S, 1, B>(simd, 0, block));
        } else if S::REGISTERS >= 32 {
            for block in 0..blocks {
                tiles!(rows, [8, 1], |row, P| self.tile::<S, P, 1>(simd, row, block));
            }
        } else if S::REGISTERS >= 8 {
            for block in 0..blocks {
                sixes!(rows, |row, P| self.tile::<S, P, 1>(simd, row, block));
            }
        } else {
            for block in 0..blocks {
                tiles!(rows, [1], |row, P| self.tile::<S, P, 1>(simd, row, block));
            }
        }
    }
}

impl Rows<'_> {
    /// `P` rows of `B` blocks.
    #[inline(always)]
    fn tile<S: Simd, const P: usize, const B: usize>(&mut self, simd: S, row: usize, block: usize) {
        let depth = self.depth;
        let mut x = [&self.x[..0]; P];
        for p in 0..P {
            x[p] = &self.x[(row + p) * self.strides[0]..][..depth];
        }
        let mut weights = [&self.weights[..0]; B];
        let mut sums = [[simd.splat(0.0); B]; P];
        for b in 0..B {
            weights[b] = &self.weights[(block + b) * depth..][..depth];
            let bias = match self.bias {
                Some(bias) => simd.load(&bias[block + b]),
                None => simd.splat(0.0),
            };
            for p in 0..P {
                sums[p][b] = bias;
            }
        }
        for k in 0..depth {
            let mut vectors = [simd.splat(0.0); B];
            for b in 0..B {
                vectors[b] = simd.load(&weights[b][k]);
            }
            for p in 0..P {
                let x = simd.splat(x[p][k]);
                for b in 0..B {
                    sums[p][b] = simd.mul_add(x, vectors[b], sums[p][b]);
                }
            }
        }
        for p in 0..P {
            let out = &mut self.out[(row + p) * self.strides[1]..][..self.columns];
            for (b, out) in out[block * BLOCK..].chunks_mut(BLOCK).enumerate().take(B) {
                simd.store_part(self.activation.of_vector(simd, sums[p][b]), out);
            }
        }
    }
}
