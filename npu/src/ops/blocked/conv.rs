//! A convolution without groups whose result is in blocks; its input is in blocks or is not.
#![allow(clippy::needless_range_loop, reason = "a tile is walked by place, block and depth")]

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::{BLOCK, Window, ZERO, blocks, conv_result, entry, maps_of, sixes, tiles};
use crate::cast;
use crate::isa::{self, Routine, Simd};
use crate::ops::{Activation, Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::ELEMENTS_MAX;
use crate::team::{self, Team};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const ENTRY: Line = Line {
    operands: (3, 4),
    ..entry("BlockedConv", 1001, 3, |from| {
        let window = Window::decode(from)?;
        Ok(Box::new(BlockedConv { window, activation: Activation::decode(from)? }))
    })
};

/// Results of a row that are made before the activation is applied to them.
const CHUNK: usize = 96;

/// Most threads that gather rows of an input that is not in blocks, each in memory of its own.
pub(super) const GATHER: usize = 4;
/// Most bytes of such memory; larger rows are gathered by one thread.
const GATHER_MAX: usize = 1 << 16;

/// A convolution. Operands: x `[N, C / 16, H, W, 16]` or `[N, C, H, W]`, weights as
/// [`pack_weights`] has them, bias `[M / 16, 16]`, and, if there is one, what is added to the
/// result before the activation.
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

impl Sizes {
    /// Floats of a row of the input that a row of results meets.
    fn line(&self, window: &Window) -> Option<usize> {
        let steps = (self.output[1] - 1).checked_mul(window.strides[1])?;
        let reach = (self.kernel[1] - 1).checked_mul(window.dilations[1])?;
        steps.checked_add(reach)?.checked_add(1)
    }

    /// Rows that the pixels of a result are cut into where rows do not matter: one, or for a team
    /// as many as are dealt out well.
    fn rows_of_pixels(&self, team: Option<&Team>) -> usize {
        let [height, width] = self.output;
        let fits = |rows: &usize| height.is_multiple_of(*rows) && width * height / rows >= CHUNK;
        let most = if team::deals(team) { height } else { 1 };
        (1..=most).rev().find(fits).unwrap_or(1)
    }

    /// Bytes of the rows that a row of results meets.
    fn window_bytes(&self, window: &Window) -> Option<usize> {
        let lines = self.in_maps.checked_mul(self.kernel[0])?;
        let floats = lines.checked_mul(self.line(window)?)?;
        Some(floats.checked_mul(size_of::<f32>())?).filter(|bytes| *bytes <= ELEMENTS_MAX)
    }
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
        let [height, width] = own.output;
        let result = conv_result([own.batch, own.out_blocks, height, width], inputs)?;
        if inputs[0].shape.rank() == 4 && own.window_bytes(&self.window).is_none() {
            let (x, w) = (inputs[0].shape, inputs[1].shape);
            return Err(OpError::shape(format!("{x} is too large for {w} with {:?}", self.window)));
        }
        Ok(result)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let mut sizes = self.sizes(inputs.info(0), inputs.info(1)).map_err(|_| Fault::Memory)?;
        let window = self.window;
        let in_blocks = inputs.info(0).shape.rank() == 5;
        if in_blocks && window.is_pointwise(sizes.kernel) {
            // Rows do not matter then.
            let rows = sizes.rows_of_pixels(output.team);
            let columns = sizes.output[0] * sizes.output[1] / rows;
            (sizes.input, sizes.output) = ([rows, columns], [rows, columns]);
        }
        let (x, weights) = (inputs.elements::<f32>(0)?, inputs.elements::<f32>(1)?);
        let (bias, activation) = (inputs.elements::<f32>(2)?, self.activation);
        let (weights, _) = weights.as_chunks();
        let (bias, _) = bias.as_chunks();
        let added = inputs.optional::<f32>(3)?.map(|added| added.as_chunks().0);
        let line = if in_blocks { 0 } else { sizes.line(&window).ok_or(Fault::Memory)? };
        let lines = line * sizes.in_maps * sizes.kernel[0];
        let team = output.team;
        let (out, scratch) = output.elements_and_scratch::<f32>()?;
        let scratch = cast::elements_mut::<f32>(scratch).ok_or(Fault::Memory)?;
        let gathered = Gathered::new(scratch, lines);
        let team = team.filter(|team| in_blocks || team.threads() <= gathered.count);
        let (out, _) = out.as_chunks_mut();
        let [rows, columns] = sizes.output;
        let depth = sizes.in_maps * sizes.kernel[0] * sizes.kernel[1];
        let cost = 2 * depth * columns * BLOCK;
        team::deal(team, out, (columns, cost), |first, out| {
            gathered.with(|lines| {
                team::planes(first, out, (rows, columns), |plane, row, out| {
                    let at = (plane * rows + row) * columns;
                    let added = added.map(|added| &added[at..][..out.len()]);
                    isa::run(Blocks {
                        x,
                        weights,
                        bias,
                        added,
                        lines: &mut *lines,
                        line,
                        out,
                        plane,
                        row,
                        sizes,
                        window,
                        activation,
                    });
                });
            });
        });
        Ok(())
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let own = self.sizes(&inputs[0], &inputs[1]).ok();
        let own = own.filter(|_| inputs[0].shape.rank() == 4);
        let one = own.and_then(|own| own.window_bytes(&self.window)).unwrap_or(0);
        if one <= GATHER_MAX { one * GATHER } else { one }
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let depth = inputs[1].shape.dims().iter().skip(1).take(3).product::<usize>() as u64;
        (2 * depth + 1 + self.activation.flops()) * output.shape.elements() as u64
    }
}

/// Memory of their own for threads that make results, as for gathered rows.
pub(super) struct Gathered<'a> {
    free: Mutex<[Option<&'a mut [f32]>; GATHER]>,
    pub(super) count: usize,
}

impl<'a> Gathered<'a> {
    /// Each has so many floats.
    pub(super) fn new(scratch: &'a mut [f32], floats: usize) -> Self {
        let mut each = scratch.chunks_exact_mut(floats.max(1));
        let free = std::array::from_fn(|_| each.next());
        let count = free.iter().flatten().count();
        Self { free: Mutex::new(free), count }
    }

    /// Calls `of` with one that nobody else has; with none where there are none.
    pub(super) fn with(&self, of: impl FnOnce(&mut [f32])) {
        let lock = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = lock().iter_mut().find_map(Option::take);
        of(own.as_deref_mut().unwrap_or_default());
        if let (Some(place), own @ Some(_)) = (lock().iter_mut().find(|one| one.is_none()), own) {
            *place = own;
        }
    }
}

/// Some rows of one plane of a convolution's results, or some whole planes.
struct Blocks<'a> {
    x: &'a [f32],
    weights: &'a [[f32; BLOCK]],
    bias: &'a [[f32; BLOCK]],
    added: Option<&'a [[f32; BLOCK]]>,
    /// Of an input that is not in blocks: the rows that a row of results meets, with the padding.
    lines: &'a mut [f32],
    /// Floats of such a row; 0 for an input in blocks.
    line: usize,
    out: &'a mut [[f32; BLOCK]],
    /// The first plane, of all images, and the first row.
    plane: usize,
    row: usize,
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

impl Place {
    #[inline(always)]
    fn after(self, count: usize) -> Self {
        Self { column: self.column + count, ..self }
    }
}

/// Adds some maps of `P` pixels times their weights.
#[inline(always)]
fn multiply<S: Simd, const P: usize, const B: usize>(
    simd: S,
    pixels: &[&[f32; BLOCK]; P],
    weights: &[&[[f32; BLOCK]]; B],
    sums: &mut [[S::V; B]; P],
) {
    for k in 0..weights[0].len().min(BLOCK) {
        let mut vectors = [simd.splat(0.0); B];
        for b in 0..B {
            vectors[b] = simd.load(&weights[b][k]);
        }
        for p in 0..P {
            let x = simd.splat(pixels[p][k]);
            for b in 0..B {
                sums[p][b] = simd.mul_add(x, vectors[b], sums[p][b]);
            }
        }
    }
}

/// Adds all maps of `P` pixels that lie `T` from each other: they have one address. The maps'
/// blocks lie `plane` from each other.
#[inline(always)]
pub(super) fn near<S: Simd, const P: usize, const B: usize, const T: usize>(
    simd: S,
    from: &[[f32; BLOCK]],
    plane: usize,
    weights: &[&[[f32; BLOCK]]; B],
    sums: &mut [[S::V; B]; P],
) {
    let maps = weights[0].len();
    for (block, first) in (0..maps).step_by(BLOCK).enumerate() {
        let pixels = &from[block * plane..][..(P - 1) * T + 1];
        let mut own = [&ZERO; P];
        for p in 0..P {
            own[p] = &pixels[p * T];
        }
        let count = (maps - first).min(BLOCK);
        multiply::<S, P, B>(simd, &own, &weights.map(|own| &own[first..][..count]), sums);
    }
}

/// The same for any columns of a row of `width`; outside of it are zeros.
#[inline(always)]
fn far<S: Simd, const P: usize, const B: usize>(
    simd: S,
    from: &[[f32; BLOCK]],
    plane: usize,
    width: usize,
    columns: &[usize; P],
    weights: &[&[[f32; BLOCK]]; B],
    sums: &mut [[S::V; B]; P],
) {
    let maps = weights[0].len();
    for (block, first) in (0..maps).step_by(BLOCK).enumerate() {
        let row = &from[block * plane..][..width];
        let mut own = [&ZERO; P];
        for p in 0..P {
            own[p] = row.get(columns[p]).unwrap_or(&ZERO);
        }
        let count = (maps - first).min(BLOCK);
        multiply::<S, P, B>(simd, &own, &weights.map(|own| &own[first..][..count]), sums);
    }
}

impl Routine for Blocks<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let ([rows, columns], all) = (self.sizes.output, self.sizes.out_blocks);
        let end = self.plane + self.out.len().div_ceil(rows * columns);
        let rows = self.row..rows.min(self.row + self.out.len() / columns);
        let mut plane = self.plane;
        while plane < end {
            let (image, first) = (plane / all, plane % all);
            let blocks = first..all.min(first + end - plane);
            plane += blocks.len();
            self.image(simd, image, blocks, rows.clone());
        }
    }
}

impl Blocks<'_> {
    /// The rows of the input that a row of results meets.
    fn gather(&mut self, image: usize, row: usize) {
        let [height, width] = self.sizes.input;
        let ([taps, _], maps) = (self.sizes.kernel, self.sizes.in_maps);
        let pad = self.window.pads_begin[1].min(self.line);
        for (index, to) in self.lines.chunks_exact_mut(self.line).enumerate().take(taps * maps) {
            let (tap, map) = (index / maps, index % maps);
            let y = self.window.meets(0, row, tap);
            if y >= height {
                to.fill(0.0);
                continue;
            }
            let from = &self.x[((image * maps + map) * height + y) * width..][..width];
            let (before, rest) = to.split_at_mut(pad);
            let (inside, after) = rest.split_at_mut(width.min(rest.len()));
            before.fill(0.0);
            inside.copy_from_slice(&from[..inside.len()]);
            after.fill(0.0);
        }
    }

    /// Some rows of some blocks of an image.
    #[inline(always)]
    fn image<S: Simd>(&mut self, simd: S, image: usize, blocks: Range<usize>, rows: Range<usize>) {
        if self.line > 0 {
            for row in rows {
                self.gather(image, row);
                self.blocks(simd, image, blocks.clone(), row..row + 1);
            }
        } else if self.sizes.output != [1, 1] || S::REGISTERS < 8 {
            self.blocks(simd, image, blocks, rows);
        } else {
            tiles!(blocks.len(), [4, 1], |at, B| {
                let place = Place { image, block: blocks.start + at, row: 0, column: 0 };
                self.tile::<S, 1, B>(simd, place);
                self.finish(simd, place, B, 1);
            });
        }
    }

    /// The same, of rows that were gathered.
    #[inline(always)]
    fn blocks<S: Simd>(&mut self, simd: S, image: usize, blocks: Range<usize>, rows: Range<usize>) {
        let first = blocks.start;
        if S::REGISTERS >= 32 {
            tiles!(blocks.len(), [2, 1], |at, B| {
                self.rows::<S, B>(simd, image, first + at, rows.clone());
            });
        } else {
            tiles!(blocks.len(), [1], |at, B| {
                self.rows::<S, B>(simd, image, first + at, rows.clone());
            });
        }
    }

    #[inline(always)]
    fn rows<S: Simd, const B: usize>(
        &mut self,
        simd: S,
        image: usize,
        block: usize,
        rows: Range<usize>,
    ) {
        let columns = self.sizes.output[1];
        for row in rows {
            for start in (0..columns).step_by(CHUNK) {
                let count = (columns - start).min(CHUNK);
                let first = Place { image, block, row, column: start };
                if S::REGISTERS >= 32 {
                    tiles!(count, [6, 2, 1], |at, P| self.tile::<S, P, B>(simd, first.after(at)));
                } else if S::REGISTERS >= 8 {
                    sixes!(count, |at, P| self.tile::<S, P, B>(simd, first.after(at)));
                } else {
                    tiles!(count, [1], |at, P| self.tile::<S, P, B>(simd, first.after(at)));
                }
                self.finish(simd, first, B, count);
            }
        }
    }

    /// Where the results of a place lie.
    #[inline(always)]
    fn at(&self, place: Place) -> usize {
        let [rows, columns] = self.sizes.output;
        let plane = place.image * self.sizes.out_blocks + place.block - self.plane;
        (plane * rows + place.row - self.row) * columns + place.column
    }

    /// Adds what is to be added to some results of some blocks, and applies the activation.
    #[inline(always)]
    fn finish<S: Simd>(&mut self, simd: S, place: Place, blocks: usize, count: usize) {
        for block in place.block..place.block + blocks {
            let at = self.at(Place { block, ..place });
            let out = &mut self.out[at..][..count];
            if let Some(added) = self.added {
                for (to, added) in out.iter_mut().zip(&added[at..][..count]) {
                    simd.store(simd.add(simd.load(to), simd.load(added)), to);
                }
            }
            self.activation.apply_vectors(simd, out);
        }
    }

    /// `P` results of `B` blocks, without the activation.
    #[inline(always)]
    fn tile<S: Simd, const P: usize, const B: usize>(&mut self, simd: S, place: Place) {
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
        match (self.line, self.window.strides[1]) {
            (0, _) => self.read_blocks(simd, place, &weights, &mut sums),
            (_, 2) if P == 6 => self.read_lines::<S, P, B, 2>(simd, place, &weights, &mut sums),
            _ => self.read_lines::<S, P, B, 0>(simd, place, &weights, &mut sums),
        }
        for b in 0..B {
            let at = self.at(Place { block: place.block + b, ..place });
            for (p, out) in self.out[at..][..P].iter_mut().enumerate() {
                simd.store(sums[p][b], out);
            }
        }
    }

    /// The whole kernel, all maps of an input in blocks.
    #[inline(always)]
    fn read_blocks<S: Simd, const P: usize, const B: usize>(
        &self,
        simd: S,
        place: Place,
        weights: &[&[[f32; BLOCK]]; B],
        sums: &mut [[S::V; B]; P],
    ) {
        let ([height, width], [taps_y, taps_x]) = (self.sizes.input, self.sizes.kernel);
        let (pixels, _) = self.x.as_chunks::<BLOCK>();
        let (maps, plane) = (self.sizes.in_maps, height * width);
        let image = &pixels[place.image * blocks(maps) * plane..][..blocks(maps) * plane];
        for tap in 0..taps_y * taps_x {
            let y = self.window.meets(0, place.row, tap / taps_x);
            if y >= height {
                continue;
            }
            let mut columns = [0; P];
            for p in 0..P {
                columns[p] = self.window.meets(1, place.column + p, tap % taps_x);
            }
            let weights = weights.map(|own| &own[tap * maps..][..maps]);
            let inside = columns[0] < width && columns[P - 1] < width;
            let from = &image[y * width..];
            match (inside, self.window.strides[1]) {
                (true, 1) if P > 1 => {
                    near::<S, P, B, 1>(simd, &from[columns[0]..], plane, &weights, sums)
                }
                (true, 2) if P == 6 && B == 1 => {
                    near::<S, P, B, 2>(simd, &from[columns[0]..], plane, &weights, sums)
                }
                _ => far(simd, from, plane, width, &columns, &weights, sums),
            }
        }
    }

    /// The whole kernel, all maps of an input whose rows were gathered. `T` is the stride
    /// along a row, or 0.
    #[inline(always)]
    fn read_lines<S: Simd, const P: usize, const B: usize, const T: usize>(
        &self,
        simd: S,
        place: Place,
        weights: &[&[[f32; BLOCK]]; B],
        sums: &mut [[S::V; B]; P],
    ) {
        let ([taps_y, taps_x], maps) = (self.sizes.kernel, self.sizes.in_maps);
        let [_, stride] = self.window.strides;
        let stride = if T > 0 { T } else { stride };
        let dilation = self.window.dilations[1];
        for index in 0..taps_y * maps {
            let (tap_y, map) = (index / maps, index % maps);
            let line = &self.lines[index * self.line + place.column * stride..];
            let first = tap_y * taps_x * maps + map;
            for tap_x in 0..taps_x {
                let line = &line[tap_x * dilation..][..(P - 1) * stride + 1];
                let mut vectors = [simd.splat(0.0); B];
                for b in 0..B {
                    vectors[b] = simd.load(&weights[b][first + tap_x * maps]);
                }
                for p in 0..P {
                    let x = simd.splat(line[p * stride]);
                    for b in 0..B {
                        sums[p][b] = simd.mul_add(x, vectors[b], sums[p][b]);
                    }
                }
            }
        }
    }
}
