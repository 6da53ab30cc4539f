//! A convolution of each map on its own, in blocks.
#![allow(clippy::needless_range_loop, reason = "a tile is walked by place")]

use super::{BLOCK, Window, ZERO, blocks, entry, maps_of, sixes, tiles};
use crate::isa::{self, Routine, Simd};
use crate::ops::{Activation, Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const ENTRY: Line = entry("BlockedDepthwise", 1002, 3, |from| {
    let window = Window::decode(from)?;
    Ok(Box::new(BlockedDepthwise { window, activation: Activation::decode(from)? }))
});

/// A convolution of each map. Operands: x `[N, C / 16, H, W, 16]`, weights as [`pack_depthwise`]
/// has them, bias `[C / 16, 16]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockedDepthwise {
    /// Where the kernel stands.
    pub window: Window,
    /// Applied to the result.
    pub activation: Activation,
}

/// Weights `[C, 1, KH, KW]` as `[C / 16, KH, KW, 16]`, zeros behind the last map; gives the dims
/// too.
#[must_use]
pub fn pack_depthwise(dims: [usize; 4], weights: &[f32]) -> ([usize; 4], Vec<f32>) {
    let [c, _, height, width] = dims;
    let own = [blocks(c), height, width, BLOCK];
    let mut packed = vec![0.0; own.iter().product()];
    let taps = height * width;
    for (index, weight) in weights.iter().enumerate() {
        let (map, tap) = (index / taps, index % taps);
        packed[(map / BLOCK * taps + tap) * BLOCK + map % BLOCK] = *weight;
    }
    (own, packed)
}

impl Op for BlockedDepthwise {
    fn code(&self) -> u16 {
        ENTRY.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.window.encode(into);
        self.activation.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [batch, blocks, height, width] = maps_of(&inputs[0])?;
        let weights = inputs[1].shape.dims();
        let (kernel, bias) = match *weights {
            [own, y, x, BLOCK] if own == blocks => ([y, x], inputs[2].shape.dims()),
            _ => ([0; 2], &[][..]),
        };
        if bias != [blocks, BLOCK] {
            let (w, bias) = (inputs[1].shape, inputs[2].shape);
            let what = format!(
                "weights are {w}, the bias is {bias}; \
                 expected [{blocks}, KH, KW, 16], [{blocks}, 16]"
            );
            return Err(OpError::shape(what));
        }
        let [rows, columns] = self.window.places([height, width], kernel)?;
        let dims = [batch, blocks, rows, columns, BLOCK];
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (x, w, to) = (inputs.dims(0), inputs.dims(1), output.info.shape.dims());
        let (&[_, blocks, height, width, _], &[_, taps_y, taps_x, _], &[_, _, rows, columns, _]) =
            (x, w, to)
        else {
            return Err(Fault::Memory);
        };
        let (input, kernel, team) = ([height, width], [taps_y, taps_x], output.team);
        let (x, _) = inputs.elements::<f32>(0)?.as_chunks();
        let (weights, _) = inputs.elements::<f32>(1)?.as_chunks();
        let (bias, _) = inputs.elements::<f32>(2)?.as_chunks();
        let (window, activation) = (self.window, self.activation);
        let (out, _) = output.elements::<f32>()?.as_chunks_mut();
        let (plane, taps) = (height * width, taps_y * taps_x);
        let cost = columns * BLOCK * 4 * (taps + 1);
        team::deal(team, out, (columns, cost), |first, part| {
            team::planes(first, part, (rows, columns), |index, row, out| {
                for (index, out) in (index..).zip(out.chunks_mut(rows * columns)) {
                    let (x, block) = (&x[index * plane..][..plane], index % blocks);
                    let (weights, bias) = (&weights[block * taps..][..taps], &bias[block]);
                    let places = [out.len() / columns, columns];
                    isa::run(Plane {
                        x,
                        weights,
                        bias,
                        out,
                        input,
                        kernel,
                        row,
                        places,
                        window,
                        activation,
                    });
                }
            });
        });
        Ok(())
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let taps = inputs[1].shape.dims().iter().skip(1).take(2).product::<usize>() as u64;
        (2 * taps + 1 + self.activation.flops()) * output.shape.elements() as u64
    }
}

/// Some rows of one block of one image.
pub(super) struct Plane<'a> {
    pub(super) x: &'a [[f32; BLOCK]],
    pub(super) weights: &'a [[f32; BLOCK]],
    pub(super) bias: &'a [f32; BLOCK],
    pub(super) out: &'a mut [[f32; BLOCK]],
    pub(super) input: [usize; 2],
    pub(super) kernel: [usize; 2],
    /// The first row.
    pub(super) row: usize,
    /// Rows, and their columns.
    pub(super) places: [usize; 2],
    pub(super) window: Window,
    pub(super) activation: Activation,
}

impl Routine for Plane<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        match self.window.strides[1] {
            _ if S::REGISTERS < 8 => self.rows::<S, 0>(simd),
            1 => self.rows::<S, 1>(simd),
            2 => self.rows::<S, 2>(simd),
            _ => self.rows::<S, 0>(simd),
        }
    }
}

impl Plane<'_> {
    /// `T` is the stride along a row, or 0.
    #[inline(always)]
    fn rows<S: Simd, const T: usize>(&mut self, simd: S) {
        let [rows, columns] = self.places;
        for row in 0..rows {
            if S::REGISTERS >= 32 {
                tiles!(columns, [8, 2, 1], |column, P| { self.tile::<S, P, T>(simd, row, column) });
            } else if S::REGISTERS >= 8 {
                sixes!(columns, |column, P| self.tile::<S, P, T>(simd, row, column));
            } else {
                tiles!(columns, [1], |column, P| self.tile::<S, P, T>(simd, row, column));
            }
        }
    }

    /// `P` results of a row.
    #[inline(always)]
    fn tile<S: Simd, const P: usize, const T: usize>(
        &mut self,
        simd: S,
        row: usize,
        column: usize,
    ) {
        let [height, width] = self.input;
        let [taps_y, taps_x] = self.kernel;
        let mut sums = [simd.load(self.bias); P];
        for tap_y in 0..taps_y {
            let y = self.window.meets(0, self.row + row, tap_y);
            if y >= height {
                continue;
            }
            let line = &self.x[y * width..][..width];
            let weights = &self.weights[tap_y * taps_x..][..taps_x];
            for (tap_x, weight) in weights.iter().enumerate() {
                let weight = simd.load(weight);
                let first = self.window.meets(1, column, tap_x);
                let inside = line.get(first..).and_then(|from| from.get(..(P - 1) * T + 1));
                if let (1.., Some(inside)) = (T, inside) {
                    for p in 0..P {
                        sums[p] = simd.mul_add(simd.load(&inside[p * T]), weight, sums[p]);
                    }
                } else {
                    for p in 0..P {
                        let x = line.get(self.window.meets(1, column + p, tap_x));
                        let x = simd.load(x.unwrap_or(&ZERO));
                        sums[p] = simd.mul_add(x, weight, sums[p]);
                    }
                }
            }
        }
        let at = row * self.places[1] + column;
        for (p, out) in self.out[at..][..P].iter_mut().enumerate() {
            simd.store(self.activation.of_vector(simd, sums[p]), out);
        }
    }
}
