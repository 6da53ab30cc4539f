//! A convolution of 3 x 3 in blocks whose results are made 2 x 2 at a time from 16 products of
//! each map instead of 36: F(2 x 2, 3 x 3) of Lavin and Gray, "Fast Algorithms for Convolutional
//! Neural Networks" (2015).
//!
//! ```text
//! V = Bᵀ d B   the 4 x 4 pixels d that a tile of 2 x 2 results meets, map by map
//! M = Σ U V    at each of the 16 places a product of matrices: weights by maps, maps by tiles
//! Y = Aᵀ M A   the results;    U = G g Gᵀ, made when the model is compiled
//! ```
//! Some tiles at a time, so that V and M stay in the cache: V of all maps of the input, then M of
//! one block of results after the other. What is cut does not depend on how many threads there are.
//! A sum has other terms than that of the direct form: results differ by rounding, and where a
//! pixel is no number or infinite, all results of the tiles that meet it may be no number.

#![allow(clippy::needless_range_loop, reason = "a tile is walked by place")]

use super::conv::{Gathered, near};
use super::{BLOCK, Window, ZERO, blocks, conv_result, entry, maps_of, sixes, tiles};
use crate::cast;
use crate::isa::{self, Routine, Simd};
use crate::ops::{Activation, Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::{ELEMENTS_MAX, Shape};
use crate::team::{self, PLANES};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const ENTRY: Line = Line {
    operands: (3, 4),
    ..entry("BlockedWinograd", 1016, 3, |from| {
        let window = Window::decode(from)?;
        if !fits(&window) {
            return Err(OpError::params(format!("{window:?}; expected steps of 1")));
        }
        Ok(Box::new(BlockedWinograd { window, activation: Activation::decode(from)? }))
    })
};

/// Places of a tile in V, U and M.
const PLACES: usize = 16;
/// Pixels along each dim of what a tile meets.
const SIDE: usize = 4;
/// Vectors of V that stay in the second level of a core's cache.
const CACHED: usize = 1536;
/// Tiles at a time: six times as many as registers make together, and at least twice.
const STRIPS: [usize; 2] = [12, 24];

/// A convolution. Operands: x `[N, C / 16, H, W, 16]`, weights as [`pack_winograd`] has them, bias
/// `[M / 16, 16]`, and, if there is one, what is added to the result before the activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockedWinograd {
    /// Where the kernel stands; its steps are 1.
    pub window: Window,
    /// Applied to the result.
    pub activation: Activation,
}

fn fits(window: &Window) -> bool {
    (window.strides, window.dilations) == ([1; 2], [1; 2])
}

/// Weights `[M / 16, 3, 3, C, 16]`, as those of [`BlockedConv`](super::BlockedConv), as U
/// `[M / 16, 16, C, 16]`; gives the dims too. `None` for other dims.
#[must_use]
pub fn pack_winograd(dims: &[usize], weights: &[f32]) -> Option<([usize; 4], Vec<f32>)> {
    let &[blocks, 3, 3, maps, BLOCK] = dims else { return None };
    let row = |g: [f64; 3]| {
        let [sum, middle] = [(g[0] + g[2]) * 0.5, g[1] * 0.5];
        [g[0], sum + middle, sum - middle, g[2]]
    };
    let lanes = maps * BLOCK;
    let mut packed = vec![0.0; blocks * PLACES * lanes];
    for (block, lane) in (0..blocks).flat_map(|block| (0..lanes).map(move |lane| (block, lane))) {
        let at = |y: usize, x: usize| {
            f64::from(weights.get((block * 9 + y * 3 + x) * lanes + lane).copied().unwrap_or(0.0))
        };
        let lines: [[f64; SIDE]; 3] =
            std::array::from_fn(|y| row(std::array::from_fn(|x| at(y, x))));
        for x in 0..SIDE {
            let column = row([lines[0][x], lines[1][x], lines[2][x]]);
            for (y, value) in column.into_iter().enumerate() {
                #[expect(clippy::cast_possible_truncation, reason = "rounded once")]
                let value = value as f32;
                packed[((block * PLACES) + y * SIDE + x) * lanes + lane] = value;
            }
        }
    }
    Some(([blocks, PLACES, maps, BLOCK], packed))
}

/// Sizes of one convolution.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    in_maps: usize,
    out_blocks: usize,
    input: [usize; 2],
    output: [usize; 2],
}

impl Sizes {
    /// Tiles of a row.
    fn wide(&self) -> usize {
        self.output[1].div_ceil(2)
    }

    /// Tiles that are made at a time.
    fn strip(&self) -> usize {
        let fit = CACHED / (PLACES * blocks(self.in_maps)) / 6 * 6;
        fit.clamp(STRIPS[0], STRIPS[1])
    }

    /// Rows of tiles that are dealt out together.
    fn band(&self) -> usize {
        (self.strip() / self.wide()).clamp(1, self.output[0].div_ceil(2))
    }

    /// Vectors of V and M for one thread.
    fn scratch(&self) -> Option<usize> {
        let tiles = PLACES * self.strip();
        tiles.checked_mul(blocks(self.in_maps) + 1).filter(|own| *own <= ELEMENTS_MAX)
    }
}

impl BlockedWinograd {
    /// Whether a convolution in blocks with these dims of packed weights has this form, and gains
    /// by it: the vector operations of both are compared.
    #[must_use]
    pub fn pays(window: &Window, weights: &[usize], output: &Shape) -> bool {
        let (&[out, 3, 3, maps, BLOCK], &[_, _, height, width, BLOCK]) = (weights, output.dims())
        else {
            return false;
        };
        let tiles = height.div_ceil(2).saturating_mul(width.div_ceil(2));
        let of_tile = PLACES * maps * out + 80 * blocks(maps) + 60 * out;
        let own = tiles.saturating_mul(of_tile);
        let direct = height.saturating_mul(width).saturating_mul(9 * maps * out);
        fits(window) && tiles >= 6 && own < direct / 10 * 8
    }

    fn sizes(&self, x: &TensorInfo, w: &TensorInfo) -> Result<Sizes, OpError> {
        let [batch, in_blocks, height, width] = maps_of(x)?;
        match *w.shape.dims() {
            [out_blocks, PLACES, in_maps, BLOCK]
                if in_blocks == blocks(in_maps) && out_blocks * in_maps > 0 =>
            {
                let output = self.window.places([height, width], [3, 3])?;
                Ok(Sizes { batch, in_maps, out_blocks, input: [height, width], output })
            }
            _ => {
                let (x, w) = (x.shape, w.shape);
                let what = format!("x is {x}, weights are {w}; expected [M / 16, 16, C, 16]");
                Err(OpError::shape(what))
            }
        }
    }
}

impl Op for BlockedWinograd {
    fn code(&self) -> u16 {
        ENTRY.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.window.encode(into);
        self.activation.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let own = self.sizes(&inputs[0], &inputs[1])?;
        let [height, width] = own.output;
        let result = conv_result([own.batch, own.out_blocks, height, width], inputs)?;
        if own.scratch().is_none() {
            return Err(OpError::shape(format!("{} is too large", inputs[0].shape)));
        }
        Ok(result)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let sizes = self.sizes(inputs.info(0), inputs.info(1)).map_err(|_| Fault::Memory)?;
        let (x, _) = inputs.elements::<f32>(0)?.as_chunks();
        let (weights, _) = inputs.elements::<f32>(1)?.as_chunks();
        let (bias, _) = inputs.elements::<f32>(2)?.as_chunks();
        let added = inputs.optional::<f32>(3)?.map(|added| added.as_chunks().0);
        let team = output.team;
        let (out, scratch) = output.elements_and_scratch::<f32>()?;
        let scratch = cast::elements_mut::<f32>(scratch).ok_or(Fault::Memory)?;
        let own = sizes.scratch().ok_or(Fault::Memory)? * BLOCK;
        let gathered = Gathered::new(scratch, own);
        let team = team.filter(|team| team.threads() <= gathered.count);
        let (out, _) = out.as_chunks_mut();
        let [rows, columns] = sizes.output;
        let (band, from) = (sizes.band(), sizes.input[0] * sizes.input[1] * blocks(sizes.in_maps));
        let cost = 2 * PLACES * band * sizes.wide() * sizes.in_maps * BLOCK;
        for (image, out) in out.chunks_mut(rows * columns * sizes.out_blocks).enumerate() {
            for (group, out) in out.chunks_mut(rows * columns * PLANES).enumerate() {
                let (first, count) = (group * PLANES, out.len() / (rows * columns));
                let at = (image * sizes.out_blocks + first) * rows * columns;
                let deal = (2 * band * columns, cost * count);
                team::bands(team, (out, rows * columns), deal, |number, out| {
                    gathered.with(|scratch| {
                        isa::run(Band {
                            x: &x[image * from..][..from],
                            weights: &weights[first * PLACES * sizes.in_maps..],
                            bias: &bias[first..],
                            added: added.map(|added| &added[at..]),
                            scratch: scratch.as_chunks_mut().0,
                            out,
                            row: number * band,
                            sizes,
                            window: self.window,
                            activation: self.activation,
                        });
                    });
                });
            }
        }
        Ok(())
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let own = self.sizes(&inputs[0], &inputs[1]).ok().and_then(|own| own.scratch());
        own.unwrap_or(0) * BLOCK * size_of::<f32>() * super::conv::GATHER
    }

    /// Those of the direct form, which whoever compares speeds counts.
    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let depth = 9 * inputs[1].shape.dims().get(2).copied().unwrap_or(0) as u64;
        (2 * depth + 1 + self.activation.flops()) * output.shape.elements() as u64
    }
}

/// Some rows of some planes of an image.
struct Band<'a, 'b> {
    /// The image.
    x: &'a [[f32; BLOCK]],
    /// Of these planes on.
    weights: &'a [[f32; BLOCK]],
    bias: &'a [[f32; BLOCK]],
    added: Option<&'a [[f32; BLOCK]]>,
    /// V `[16, C / 16, strip, 16]` and M `[16, strip, 16]`.
    scratch: &'a mut [[f32; BLOCK]],
    out: &'a mut [&'b mut [[f32; BLOCK]]],
    /// The first row of tiles.
    row: usize,
    sizes: Sizes,
    window: Window,
    activation: Activation,
}

/// Tiles of a row of tiles, and which tile of the strip is the first one.
#[derive(Clone, Copy, Debug)]
struct Run {
    row: usize,
    column: usize,
    count: usize,
    at: usize,
}

impl Routine for Band<'_, '_> {
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let (wide, strip) = (self.sizes.wide(), self.sizes.strip());
        let own = self.out.first().map_or(0, |part| part.len());
        let tiles = (own / self.sizes.output[1]).div_ceil(2) * wide;
        for start in (0..tiles).step_by(strip) {
            let end = tiles.min(start + strip);
            let mut first = start;
            while first < end {
                let (row, column) = (first / wide, first % wide);
                let count = (end - first).min(wide - column);
                self.gather(simd, Run { row, column, count, at: first - start });
                first += count;
            }
            for plane in 0..self.out.len() {
                self.multiply(simd, plane, end - start);
                let mut first = start;
                while first < end {
                    let (row, column) = (first / wide, first % wide);
                    let count = (end - first).min(wide - column);
                    self.results(simd, plane, Run { row, column, count, at: first - start });
                    first += count;
                }
            }
        }
    }
}

/// Bᵀ of four.
#[inline(always)]
fn apart<S: Simd>(simd: S, d: [S::V; SIDE]) -> [S::V; SIDE] {
    let [a, b, c, e] = d;
    [simd.sub(a, c), simd.add(b, c), simd.sub(c, b), simd.sub(b, e)]
}

/// The same one of each of four.
#[inline(always)]
fn across<V: Copy, const N: usize>(of: &[[V; N]; SIDE], at: usize) -> [V; SIDE] {
    [of[0][at], of[1][at], of[2][at], of[3][at]]
}

/// Aᵀ of four.
#[inline(always)]
fn together<S: Simd>(simd: S, m: [S::V; SIDE]) -> [S::V; 2] {
    let [a, b, c, e] = m;
    [simd.add(simd.add(a, b), c), simd.sub(simd.sub(b, c), e)]
}

impl Band<'_, '_> {
    /// V of some tiles.
    #[inline(always)]
    fn gather<S: Simd>(&mut self, simd: S, run: Run) {
        let [height, width] = self.sizes.input;
        let (planes, strip) = (blocks(self.sizes.in_maps), self.sizes.strip());
        for (plane, tile) in (0..planes).flat_map(|plane| (0..run.count).map(move |t| (plane, t))) {
            let x = &self.x[plane * height * width..][..height * width];
            let row = 2 * (self.row + run.row);
            let first = self.window.meets(1, 2 * (run.column + tile), 0);
            let mut lines: [[&[f32; BLOCK]; SIDE]; SIDE] = [[&ZERO; SIDE]; SIDE];
            for (y, line) in lines.iter_mut().enumerate() {
                let y = self.window.meets(0, row, y);
                if y >= height {
                    continue;
                }
                let from = &x[y * width..][..width];
                if let Some(own) = from.get(first..).and_then(|from| from.first_chunk::<SIDE>()) {
                    *line = own.each_ref();
                } else {
                    for (x, to) in line.iter_mut().enumerate() {
                        *to = from.get(first.wrapping_add(x)).unwrap_or(&ZERO);
                    }
                }
            }
            let mut columns = [[simd.splat(0.0); SIDE]; SIDE];
            for x in 0..SIDE {
                let [a, b, c, d] = [lines[0][x], lines[1][x], lines[2][x], lines[3][x]];
                let own = [simd.load(a), simd.load(b), simd.load(c), simd.load(d)];
                columns[x] = apart(simd, own);
            }
            for y in 0..SIDE {
                let own = apart(simd, across(&columns, y));
                for x in 0..SIDE {
                    let at = ((y * SIDE + x) * planes + plane) * strip + run.at + tile;
                    simd.store(own[x], &mut self.scratch[at]);
                }
            }
        }
    }

    /// M of some tiles for one block of results.
    #[inline(always)]
    fn multiply<S: Simd>(&mut self, simd: S, plane: usize, count: usize) {
        let (maps, strip) = (self.sizes.in_maps, self.sizes.strip());
        let (v, m) = self.scratch.split_at_mut(PLACES * blocks(maps) * strip);
        for place in 0..PLACES {
            let from = &v[place * blocks(maps) * strip..][..blocks(maps) * strip];
            let weights = [&self.weights[(plane * PLACES + place) * maps..][..maps]];
            let to = &mut m[place * strip..][..strip];
            if S::REGISTERS >= 32 {
                tiles!(count, [12, 6, 2, 1], |at, P| products::<S, P>(
                    simd, from, strip, &weights, to, at
                ));
            } else if S::REGISTERS >= 8 {
                sixes!(count, |at, P| products::<S, P>(simd, from, strip, &weights, to, at));
            } else {
                tiles!(count, [1], |at, P| products::<S, P>(simd, from, strip, &weights, to, at));
            }
        }
    }

    /// The results of some tiles in one block.
    #[inline(always)]
    fn results<S: Simd>(&mut self, simd: S, plane: usize, run: Run) {
        let ([rows, columns], strip) = (self.sizes.output, self.sizes.strip());
        let m = &self.scratch[PLACES * blocks(self.sizes.in_maps) * strip..][..PLACES * strip];
        let bias = simd.load(&self.bias[plane]);
        let at = 2 * run.row * columns;
        let (upper, lower) = self.out[plane][at..].split_at_mut(columns);
        let lower = lower.get_mut(..columns).unwrap_or_default();
        for tile in 0..run.count {
            let mut halves = [[simd.splat(0.0); 2]; SIDE];
            for x in 0..SIDE {
                let mut own = [bias; SIDE];
                for y in 0..SIDE {
                    own[y] = simd.load(&m[(y * SIDE + x) * strip + run.at + tile]);
                }
                halves[x] = together(simd, own);
            }
            let column = 2 * (run.column + tile);
            let above = together(simd, across(&halves, 0));
            let below = together(simd, across(&halves, 1));
            for x in 0..2 {
                if let Some(to) = upper.get_mut(column + x) {
                    simd.store(simd.add(above[x], bias), to);
                }
                if let Some(to) = lower.get_mut(column + x) {
                    simd.store(simd.add(below[x], bias), to);
                }
            }
        }
        let columns_of = 2 * run.column..columns.min(2 * (run.column + run.count));
        let first = (plane * rows + 2 * (self.row + run.row)) * columns;
        for (index, line) in [upper, lower].into_iter().enumerate() {
            let Some(out) = line.get_mut(columns_of.clone()) else { continue };
            if let Some(added) = self.added {
                let added = &added[first + index * columns + columns_of.start..][..out.len()];
                for (to, added) in out.iter_mut().zip(added) {
                    simd.store(simd.add(simd.load(to), simd.load(added)), to);
                }
            }
            self.activation.apply_vectors(simd, out);
        }
    }
}

/// `P` products of a place: all maps of those tiles.
#[inline(always)]
fn products<S: Simd, const P: usize>(
    simd: S,
    from: &[[f32; BLOCK]],
    strip: usize,
    weights: &[&[[f32; BLOCK]]; 1],
    to: &mut [[f32; BLOCK]],
    at: usize,
) {
    let mut sums = [[simd.splat(0.0); 1]; P];
    near::<S, P, 1, 1>(simd, &from[at..], strip, weights, &mut sums);
    for (p, to) in to[at..][..P].iter_mut().enumerate() {
        simd.store(sums[p][0], to);
    }
}

#[cfg(test)]
mod tests;
