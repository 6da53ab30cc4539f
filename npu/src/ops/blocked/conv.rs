//! A convolution without groups whose result is in blocks; its input is in blocks or is not.
#![allow(clippy::needless_range_loop, reason = "a tile is walked by place, block and depth")]

use super::{BLOCK, Window, ZERO, blocks, entry, maps_of, sixes, tiles};
use crate::isa::{self, Routine, Simd};
use crate::ops::{Activation, Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const ENTRY: Line = entry("BlockedConv", 1001, 3, |from| {
    let window = Window::decode(from)?;
    Ok(Box::new(BlockedConv { window, activation: Activation::decode(from)? }))
});

/// A convolution. Operands: x `[N, C / 16, H, W, 16]` or `[N, C, H, W]`, weights as
/// [`pack_weights`] has them, bias `[M / 16, 16]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockedConv {
    /// Where the kernel stands.
    pub window: Window,
    /// Applied to the result.
    pub activation: Activation,
}

/// Weights `[M, C, KH, KW]` as `[M / 16, KH, KW, C, 16]`, zeros behind the last map; gives the dims
/// too.
#[must_use]
pub fn pack_weights(dims: [usize; 4], weights: &[f32]) -> ([usize; 5], Vec<f32>) {
    let [m, c, height, width] = dims;
    let own = [blocks(m), height, width, c, BLOCK];
    let mut packed = vec![0.0; own.iter().product()];
    let taps = height * width;
    for (index, weight) in weights.iter().enumerate() {
        let (map, from, tap) = (index / taps / c, index / taps % c, index % taps);
        packed[((map / BLOCK * taps + tap) * c + from) * BLOCK + map % BLOCK] = *weight;
    }
    (own, packed)
}

/// Sizes of one convolution.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    /// Maps of the input, and blocks of the result.
    in_maps: usize,
    out_blocks: usize,
    input: [usize; 2],
    kernel: [usize; 2],
    output: [usize; 2],
}

impl BlockedConv {
    fn sizes(&self, x: &TensorInfo, w: &TensorInfo) -> Result<Sizes, OpError> {
        let refuse = || {
            let (x, w) = (x.shape, w.shape);
            OpError::shape(format!("x is {x}, weights are {w}; expected [M / 16, KH, KW, C, 16]"))
        };
        let [out_blocks, height, width, in_maps, BLOCK] = *w.shape.dims() else {
            return Err(refuse());
        };
        let (batch, fits, input) = match *x.shape.dims() {
            [n, c, h, w] => (n, c == in_maps && n * c * h * w > 0, [h, w]),
            _ => {
                let [n, c, h, w] = maps_of(x)?;
                (n, c == blocks(in_maps), [h, w])
            }
        };
        if !fits || w.shape.elements() == 0 {
            return Err(refuse());
        }
        let kernel = [height, width];
        let output = self.window.places(input, kernel)?;
        Ok(Sizes { batch, in_maps, out_blocks, input, kernel, output })
    }
}

impl Op for BlockedConv {
    fn code(&self) -> u16 {
        ENTRY.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.window.encode(into);
        self.activation.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let own = self.sizes(&inputs[0], &inputs[1])?;
        if inputs[2].shape.dims() != [own.out_blocks, BLOCK] {
            let (found, expected) = (inputs[2].shape, own.out_blocks);
            return Err(OpError::shape(format!("the bias is {found}; expected [{expected}, 16]")));
        }
        let [height, width] = own.output;
        let dims = [own.batch, own.out_blocks, height, width, BLOCK];
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let mut sizes = self.sizes(inputs.info(0), inputs.info(1)).map_err(|_| Fault::Memory)?;
        let window = self.window;
        if window.is_pointwise(sizes.kernel) {
            // Rows do not matter then.
            let pixels = sizes.output[0] * sizes.output[1];
            (sizes.input, sizes.output) = ([1, pixels], [1, pixels]);
        }
        let in_blocks = inputs.info(0).shape.rank() == 5;
        let (x, weights) = (inputs.elements::<f32>(0)?, inputs.elements::<f32>(1)?);
        let (bias, activation) = (inputs.elements::<f32>(2)?, self.activation);
        let (weights, _) = weights.as_chunks();
        let (bias, _) = bias.as_chunks();
        let (out, _) = output.elements::<f32>()?.as_chunks_mut();
        let all = Blocks { x, in_blocks, weights, bias, out, sizes, window, activation };
        isa::run(all);
        Ok(())
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let depth = inputs[1].shape.dims().iter().skip(1).take(3).product::<usize>() as u64;
        (2 * depth + 1 + self.activation.flops()) * output.shape.elements() as u64
    }
}

/// All of one convolution.
struct Blocks<'a> {
    x: &'a [f32],
    in_blocks: bool,
    weights: &'a [[f32; BLOCK]],
    bias: &'a [[f32; BLOCK]],
    out: &'a mut [[f32; BLOCK]],
    sizes: Sizes,
    window: Window,
    activation: Activation,
}

/// Some neighbouring results of a row, in some blocks.
#[derive(Clone, Copy)]
struct Place {
    image: usize,
    block: usize,
    row: usize,
    column: usize,
}

impl Routine for Blocks<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let blocks = self.sizes.out_blocks;
        let single = self.sizes.output == [1, 1];
        for image in 0..self.sizes.batch {
            if S::REGISTERS >= 32 {
                if single {
                    tiles!(blocks, [8, 1], |block, B| self.single::<S, B>(simd, image, block));
                } else {
                    tiles!(blocks, [2, 1], |block, B| self.wide::<S, B>(simd, image, block));
                }
            } else if S::REGISTERS >= 8 {
                if single {
                    tiles!(blocks, [4, 1], |block, B| self.single::<S, B>(simd, image, block));
                } else {
                    tiles!(blocks, [1], |block, B| self.narrow::<S, B>(simd, image, block));
                }
            } else {
                tiles!(blocks, [1], |block, B| self.least::<S, B>(simd, image, block));
            }
        }
    }
}

impl Blocks<'_> {
    #[inline(always)]
    fn single<S: Simd, const B: usize>(&mut self, simd: S, image: usize, block: usize) {
        self.tile::<S, 1, B>(simd, Place { image, block, row: 0, column: 0 });
    }

    #[inline(always)]
    fn wide<S: Simd, const B: usize>(&mut self, simd: S, image: usize, block: usize) {
        let [rows, columns] = self.sizes.output;
        for row in 0..rows {
            tiles!(columns, [12, 4, 1], |column, P| {
                self.tile::<S, P, B>(simd, Place { image, block, row, column })
            });
        }
    }

    #[inline(always)]
    fn narrow<S: Simd, const B: usize>(&mut self, simd: S, image: usize, block: usize) {
        let [rows, columns] = self.sizes.output;
        for row in 0..rows {
            sixes!(columns, |column, P| {
                self.tile::<S, P, B>(simd, Place { image, block, row, column })
            });
        }
    }

    #[inline(always)]
    fn least<S: Simd, const B: usize>(&mut self, simd: S, image: usize, block: usize) {
        let [rows, columns] = self.sizes.output;
        for row in 0..rows {
            tiles!(columns, [2, 1], |column, P| {
                self.tile::<S, P, B>(simd, Place { image, block, row, column })
            });
        }
    }

    /// `P` results of `B` blocks.
    #[inline(always)]
    fn tile<S: Simd, const P: usize, const B: usize>(&mut self, simd: S, place: Place) {
        let [height, _] = self.sizes.input;
        let [taps_y, taps_x] = self.sizes.kernel;
        let depth = taps_y * taps_x * self.sizes.in_maps;
        let mut sums = [[simd.splat(0.0); B]; P];
        let mut weights = [&self.weights[..0]; B];
        for b in 0..B {
            weights[b] = &self.weights[(place.block + b) * depth..][..depth];
            let bias = simd.load(&self.bias[place.block + b]);
            for p in 0..P {
                sums[p][b] = bias;
            }
        }
        for tap_y in 0..taps_y {
            let y = self.window.meets(0, place.row, tap_y);
            if y >= height {
                continue;
            }
            let line = tap_y * taps_x * self.sizes.in_maps;
            let line = weights.map(|own| &own[line..][..taps_x * self.sizes.in_maps]);
            match (self.in_blocks, self.window.strides[1]) {
                (true, _) => self.read_blocks(simd, place, y, &line, &mut sums),
                (_, 1) => self.read_maps::<S, P, B, 1>(simd, place, y, &line, &mut sums),
                (_, 2) => self.read_maps::<S, P, B, 2>(simd, place, y, &line, &mut sums),
                _ => self.read_maps::<S, P, B, 0>(simd, place, y, &line, &mut sums),
            }
        }
        let [rows, columns] = self.sizes.output;
        for b in 0..B {
            let map = place.image * self.sizes.out_blocks + place.block + b;
            let at = (map * rows + place.row) * columns + place.column;
            for (p, out) in self.out[at..][..P].iter_mut().enumerate() {
                simd.store(self.activation.of_vector(simd, sums[p][b]), out);
            }
        }
    }

    /// A row of the kernel, all maps of an input in blocks.
    #[inline(always)]
    fn read_blocks<S: Simd, const P: usize, const B: usize>(
        &self,
        simd: S,
        place: Place,
        y: usize,
        line: &[&[[f32; BLOCK]]; B],
        sums: &mut [[S::V; B]; P],
    ) {
        let [height, width] = self.sizes.input;
        let (pixels, _) = self.x.as_chunks::<BLOCK>();
        let in_blocks = blocks(self.sizes.in_maps);
        for tap_x in 0..self.sizes.kernel[1] {
            for block in 0..in_blocks {
                let row = ((place.image * in_blocks + block) * height + y) * width;
                let row = &pixels[row..][..width];
                let mut own = [&ZERO; P];
                for p in 0..P {
                    let x = self.window.meets(1, place.column + p, tap_x);
                    own[p] = row.get(x).unwrap_or(&ZERO);
                }
                let first = block * BLOCK;
                let count = (self.sizes.in_maps - first).min(BLOCK);
                let first = tap_x * self.sizes.in_maps + first;
                let tap = line.map(|own| &own[first..][..count]);
                for k in 0..count {
                    let mut vectors = [simd.splat(0.0); B];
                    for b in 0..B {
                        vectors[b] = simd.load(&tap[b][k]);
                    }
                    for p in 0..P {
                        let x = simd.splat(own[p][k]);
                        for b in 0..B {
                            sums[p][b] = simd.mul_add(x, vectors[b], sums[p][b]);
                        }
                    }
                }
            }
        }
    }

    /// A row of the kernel, all maps of an input that is not in blocks. `T` is the stride along a
    /// row, or 0.
    #[inline(always)]
    fn read_maps<S: Simd, const P: usize, const B: usize, const T: usize>(
        &self,
        simd: S,
        place: Place,
        y: usize,
        line: &[&[[f32; BLOCK]]; B],
        sums: &mut [[S::V; B]; P],
    ) {
        let [height, width] = self.sizes.input;
        let maps = self.sizes.in_maps;
        for map in 0..maps {
            let row = ((place.image * maps + map) * height + y) * width;
            let row = &self.x[row..][..width];
            for tap_x in 0..self.sizes.kernel[1] {
                let mut vectors = [simd.splat(0.0); B];
                for b in 0..B {
                    vectors[b] = simd.load(&line[b][tap_x * maps + map]);
                }
                let first = self.window.meets(1, place.column, tap_x);
                let inside = row.get(first..).and_then(|from| from.get(..(P - 1) * T + 1));
                if let (1.., Some(inside)) = (T, inside) {
                    for p in 0..P {
                        let x = simd.splat(inside[p * T]);
                        for b in 0..B {
                            sums[p][b] = simd.mul_add(x, vectors[b], sums[p][b]);
                        }
                    }
                } else {
                    for p in 0..P {
                        let x = row.get(self.window.meets(1, place.column + p, tap_x));
                        let x = simd.splat(x.copied().unwrap_or(0.0));
                        for b in 0..B {
                            sums[p][b] = simd.mul_add(x, vectors[b], sums[p][b]);
                        }
                    }
                }
            }
        }
    }
}
