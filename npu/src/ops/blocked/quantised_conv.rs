//! Convolutions of bytes whose result is in blocks.

use super::depthwise::Plane;
use super::quantised::{
    FLOATS, Finish, Number, PAIRS, Product, SUMS, Spread, Taps, Weights, check_zero, pack_pairs,
    words,
};
use super::{BLOCK, Fours, Window, entry, maps_of};
use crate::DataType;
use crate::cast;
use crate::isa::{self, Routine, Simd};
use crate::ops::quantize::{Back, ends};
use crate::ops::{Activation, Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::{ELEMENTS_MAX, Shape};
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// Types of x.
const X: &[(DataType, u32)] = &[(DataType::INT8, 1), (DataType::UINT8, 1)];

pub(super) const ENTRY: Line = Line {
    types: X,
    mixed: &[(1, PAIRS), (2, SUMS), (3, FLOATS)],
    ..entry("QuantisedConv", 1012, 4, |from| {
        let (window, kernel) = (Window::decode(from)?, from.sizes()?);
        let zero = from.u32()?.cast_signed();
        check_zero(zero)?;
        if kernel.contains(&0) || kernel.iter().any(|own| *own > ELEMENTS_MAX) {
            return Err(OpError::params(format!("{kernel:?} is no kernel")));
        }
        Ok(Box::new(QuantisedConv { window, kernel, zero, finish: Finish::decode(from)? }))
    })
};

pub(super) const DEPTHWISE: Line = Line {
    types: X,
    mixed: &[(1, FLOATS), (2, FLOATS), (3, FLOATS)],
    ..entry("QuantisedDepthwise", 1013, 4, |from| {
        let (window, zero) = (Window::decode(from)?, from.u32()?.cast_signed());
        check_zero(zero)?;
        Ok(Box::new(QuantisedDepthwise { window, zero, finish: Finish::decode(from)? }))
    })
};

/// A convolution of bytes. Operands: x `[N, C / 16, H, W, 16]`, or `[N, C, H, W]`; weights as
/// [`super::pack_pairs`] has them, of a matrix with a column for each map of the result and a row
/// for each number of a sum: block of maps, row and column of the kernel, map of the block; or row,
/// column and map, an even number of maps. A bias of whole numbers and factors, `[M / 16, 16]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantisedConv {
    /// Where the kernel stands.
    pub window: Window,
    /// Its rows and columns.
    pub kernel: [usize; 2],
    /// The zero of x.
    pub zero: i32,
    /// What becomes of a sum.
    pub finish: Finish,
}

/// Weights `[M, C, KH, KW]` without their zeros, as [`QuantisedConv`] reads them; gives the dims
/// too.
#[must_use]
pub fn pack_kernel([m, c, height, width]: [usize; 4], weights: &[i16]) -> ([usize; 4], Vec<i16>) {
    let taps = height * width;
    let lanes = QuantisedConv::lanes(c);
    pack_pairs([c.div_ceil(lanes) * lanes * taps, m], |k, map| {
        let (from, tap) = (k / lanes / taps * lanes + k % lanes, k / lanes % taps);
        if from < c { weights[(map * c + from) * taps + tap] } else { 0 }
    })
}

/// Sizes of one convolution.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    in_blocks: bool,
    batch: usize,
    /// Blocks of x, or one, and maps that lie together.
    planes: usize,
    lanes: usize,
    maps: usize,
    input: [usize; 2],
    /// With the padding that is met.
    padded: [usize; 2],
    output: [usize; 2],
}

impl Sizes {
    /// Numbers of x with its padding.
    fn scratch(&self) -> Option<usize> {
        let plane = self.padded[0].checked_mul(self.padded[1])?.checked_mul(self.lanes)?;
        plane.checked_mul(self.planes).filter(|own| *own <= ELEMENTS_MAX / 4)
    }

    /// For sums of words of so many numbers. No more bytes of scratch memory than for pairs.
    fn of_words(self, count: usize) -> Self {
        Self { lanes: self.lanes.next_multiple_of(count), ..self }
    }

    /// Whether x is read as it lies.
    fn is_whole(&self, window: &Window) -> bool {
        self.in_blocks && self.padded == self.input && window.pads_begin == [0, 0]
    }
}

impl QuantisedConv {
    /// Whether x of so many maps lies in blocks; a few are put together by the kernel.
    #[must_use]
    pub const fn reads_blocks(maps: usize) -> bool {
        maps > BLOCK / 2
    }

    /// Maps whose numbers of a pixel lie together.
    const fn lanes(maps: usize) -> usize {
        if Self::reads_blocks(maps) { BLOCK } else { maps.next_multiple_of(2) }
    }

    fn sizes(&self, x: &TensorInfo, w: &TensorInfo) -> Result<Sizes, OpError> {
        let in_blocks = x.shape.rank() == 5;
        let (batch, maps, input) = match *x.shape.dims() {
            [n, c, h, w] if n * c * h * w > 0 => (n, c, [h, w]),
            _ => {
                let [n, c, h, w] = maps_of(x)?;
                (n, c, [h, w])
            }
        };
        let [planes, lanes] = if in_blocks { [maps, BLOCK] } else { [1, maps.next_multiple_of(2)] };
        let output = self.window.places(input, self.kernel)?;
        let taps = self.kernel[0].checked_mul(self.kernel[1]);
        let depth = taps.and_then(|own| own.checked_mul(planes * lanes / 2));
        let depth = depth.unwrap_or(usize::MAX);
        let mut padded = [0; 2];
        for dim in 0..2 {
            let reach = (self.kernel[dim] - 1) * self.window.dilations[dim] + 1;
            padded[dim] = (output[dim] - 1) * self.window.strides[dim] + reach;
        }
        let own = Sizes { in_blocks, batch, planes, lanes, maps, input, padded, output };
        let fits = matches!(*w.shape.dims(), [m, d, BLOCK, 2] if d == depth && m > 0);
        if !fits || own.scratch().is_none() {
            let (x, w) = (x.shape, w.shape);
            let what = format!(
                "x is {x}, weights are {w}; expected [M / 16, {depth}, 16, 2], and no more \
                 padding than there is memory"
            );
            return Err(OpError::shape(what));
        }
        Ok(own)
    }

    /// An image with its padding, plane by plane, as the words of sums.
    fn fill<'a, T: Number>(
        &self,
        own: &Sizes,
        (x, zero): (&'a [u8], (bool, i32)),
        scratch: &'a mut [u8],
    ) -> Result<&'a [i32], Fault> {
        let whole = own.is_whole(&self.window);
        if whole && T::COUNT == 4 && !zero.0 {
            return cast::elements(x).ok_or(Fault::Memory);
        }
        let to = cast::elements_mut::<T>(scratch).ok_or(Fault::Memory)?;
        let to = own.scratch().and_then(|count| to.get_mut(..count)).ok_or(Fault::Memory)?;
        if whole {
            isa::run(Spread { x, zero, to: &mut *to });
            return words(to);
        }
        let Sizes { lanes, padded: [_, columns], input: [height, width], .. } = *own;
        let [above, left] = self.window.pads_begin;
        // What is behind the last place of the kernel is not met.
        let left = left.min(columns);
        let inside = width.min(columns - left);
        let padding = T::padding(zero);
        for (index, to) in to.chunks_exact_mut(columns * lanes).enumerate() {
            let (plane, row) = (index / own.padded[0], index % own.padded[0]);
            let from = row.wrapping_sub(above);
            if from >= height || !own.in_blocks {
                to.fill(padding);
            }
            if from >= height {
                continue;
            }
            let (before, to) = to.split_at_mut(left * lanes);
            let (to, behind) = to.split_at_mut(inside * lanes);
            if own.in_blocks {
                before.fill(padding);
                behind.fill(padding);
                let x = &x[(plane * height + from) * width * lanes..][..inside * lanes];
                isa::run(Spread { x, zero, to });
                continue;
            }
            for map in 0..own.maps {
                let x = &x[(map * height + from) * width..][..inside];
                let of = |x: &u8| T::of(*x, zero);
                match lanes {
                    2 => interleave::<T, 2>(map, x.iter().map(of), to),
                    4 => interleave::<T, 4>(map, x.iter().map(of), to),
                    _ => to.chunks_exact_mut(lanes).zip(x).for_each(|(to, x)| to[map] = of(x)),
                }
            }
        }
        words(to)
    }

    /// Where the words of a sum lie; those of a pixel, and of neighbours, lie behind one another.
    fn taps(&self, own: &Sizes, pixel: usize) -> Taps {
        let pixel = std::hint::black_box(pixel);
        let [height, width] = own.padded;
        let [step_y, step_x] = self.window.dilations;
        let [taps_y, taps_x] = self.kernel;
        let (taps_x, run) = if step_x == 1 { (1, taps_x * pixel) } else { (taps_x, pixel) };
        let steps = [height * width, step_y * width, step_x].map(|step| step * pixel);
        Taps { counts: [own.planes, taps_y, taps_x], steps, run }
    }

    /// How weights of these dims are dealt out to fours: pixels are runs.
    fn runs(own: &Sizes, dims: &[usize]) -> Option<Fours> {
        Fours::new(dims, own.lanes / 2)
    }
}

/// Writes one number of every pixel.
#[inline(always)]
fn interleave<T: Number, const N: usize>(map: usize, x: impl Iterator<Item = T>, to: &mut [T]) {
    to.as_chunks_mut::<N>().0.iter_mut().zip(x).for_each(|(to, x)| to[map % N] = x);
}

impl Op for QuantisedConv {
    fn code(&self) -> u16 {
        ENTRY.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.window.encode(into);
        into.sizes(&self.kernel);
        into.u32(self.zero.cast_unsigned());
        self.finish.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let own = self.sizes(&inputs[0], &inputs[1])?;
        let maps = inputs[1].shape.dims()[0];
        for list in &inputs[2..] {
            if list.shape.dims() != [maps, BLOCK] {
                let found = list.shape;
                return Err(OpError::shape(format!("a list is {found}; expected [{maps}, 16]")));
            }
        }
        let dims = [own.batch, maps, own.output[0], own.output[1], BLOCK];
        Ok(TensorInfo::new(self.finish.to, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let own = self.sizes(inputs.info(0), inputs.info(1)).map_err(|_| Fault::Memory)?;
        let maps = inputs.dims(1)[0];
        let (bias, _) = inputs.elements::<i32>(2)?.as_chunks();
        let (factors, _) = inputs.elements::<f32>(3)?.as_chunks();
        let zero = (inputs.info(0).dtype == DataType::INT8, self.zero);
        let weights = Weights::of(inputs, Self::runs(&own, inputs.dims(1)), zero)?;
        let count = if weights.are_fours() { u8::COUNT } else { i16::COUNT };
        let own = own.of_words(count);
        let (finish, size) = (self.finish, self.finish.bytes());
        // Of one pixel each and in order, all pixels are one row.
        let single = self.kernel == [1; 2] && self.window.strides == [1; 2];
        let [rows, columns] = match single {
            true => [1, own.output[0] * own.output[1]],
            false => own.output,
        };
        let image = inputs.bytes(0).len() / own.batch;
        let line = columns * BLOCK * size;
        let (width, pixel) = (own.padded[1], own.lanes / count);
        let taps = self.taps(&own, pixel);
        let [stride_y, stride_x] = self.window.strides.map(|stride| stride * pixel);
        let images = inputs.bytes(0).chunks_exact(image);
        for (from, out) in images.zip(output.bytes.chunks_exact_mut(line * rows * maps)) {
            let x = match weights.are_fours() {
                true => self.fill::<u8>(&own, (from, zero), output.scratch)?,
                false => self.fill::<i16>(&own, (from, zero), output.scratch)?,
            };
            let cost = count * weights.depth * BLOCK * columns;
            team::deal(output.team, out, (line, cost), |first, part| {
                for (index, out) in (first..).zip(part.chunks_exact_mut(line)) {
                    let (block, row) = (index / rows, index % rows);
                    let own = Product {
                        x: &x[row * stride_y * width..],
                        step: stride_x,
                        taps,
                        weights: weights.from(block),
                        bias: &bias[block..=block],
                        factors: &factors[block..=block],
                        rows: columns,
                        columns: BLOCK,
                        finish,
                        out,
                    };
                    own.run();
                }
            });
        }
        Ok(())
    }

    fn fours(&self, inputs: &[TensorInfo]) -> Option<Fours> {
        let own = self.sizes(&inputs[0], &inputs[1]).ok()?;
        // Padding is the zero of x, and has to be a byte.
        let (low, high) = ends(inputs[0].dtype);
        let padded = (low..=high).contains(&self.zero);
        Self::runs(&own, inputs[1].shape.dims()).filter(|_| padded)
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let own = self.sizes(&inputs[0], &inputs[1]).ok();
        own.and_then(|own| own.scratch()).map_or(0, |own| 2 * own)
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let pairs = inputs[1].shape.dims().get(1).copied().unwrap_or(0) as u64;
        (4 * pairs + 3) * output.shape.elements() as u64
    }
}

/// A convolution of each map of bytes. Operands: x `[N, C / 16, H, W, 16]`, weights as
/// [`super::pack_depthwise`] has them, bias and factors `[C / 16, 16]`. Weights and bias are whole
/// numbers; so long as sums are below 2^24, floats have them exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantisedDepthwise {
    /// Where the kernel stands.
    pub window: Window,
    /// The zero of x.
    pub zero: i32,
    /// What becomes of a sum.
    pub finish: Finish,
}

impl QuantisedDepthwise {
    /// Blocks, input, kernel and output.
    fn sizes(&self, x: &TensorInfo, w: &TensorInfo) -> Result<(usize, [[usize; 2]; 3]), OpError> {
        let [_, own, height, width] = maps_of(x)?;
        match *w.shape.dims() {
            [count, y, x, BLOCK] if count == own => {
                let (input, kernel) = ([height, width], [y, x]);
                let output = self.window.places(input, kernel)?;
                Ok((own, [input, kernel, output]))
            }
            _ => {
                let w = w.shape;
                Err(OpError::shape(format!("weights are {w}; expected [{own}, KH, KW, 16]")))
            }
        }
    }
}

impl Op for QuantisedDepthwise {
    fn code(&self) -> u16 {
        DEPTHWISE.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.window.encode(into);
        into.u32(self.zero.cast_unsigned());
        self.finish.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (maps, [_, _, [rows, columns]]) = self.sizes(&inputs[0], &inputs[1])?;
        for list in &inputs[2..] {
            if list.shape.dims() != [maps, BLOCK] {
                let found = list.shape;
                return Err(OpError::shape(format!("a list is {found}; expected [{maps}, 16]")));
            }
        }
        if self.finish.to == DataType::INT32 {
            return Err(OpError::shape("the result is a sum; expected bytes or floats"));
        }
        let dims = [inputs[0].shape.dims()[0], maps, rows, columns, BLOCK];
        Ok(TensorInfo::new(self.finish.to, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let sizes = self.sizes(inputs.info(0), inputs.info(1)).map_err(|_| Fault::Memory)?;
        let (maps, [input, kernel, places]) = sizes;
        let (weights, _) = inputs.elements::<f32>(1)?.as_chunks();
        let (bias, _) = inputs.elements::<f32>(2)?.as_chunks::<BLOCK>();
        let (factors, _) = inputs.elements::<f32>(3)?.as_chunks::<BLOCK>();
        let signed = inputs.info(0).dtype == DataType::INT8;
        let (plane, taps) = (input[0] * input[1], kernel[0] * kernel[1]);
        let line = places[1] * BLOCK * self.finish.bytes();
        let scratch = cast::elements_mut::<f32>(output.scratch).ok_or(Fault::Memory)?;
        let (x, sums) = scratch.split_at_mut_checked(plane * BLOCK).ok_or(Fault::Memory)?;
        let sums = sums.as_chunks_mut().0.get_mut(..places[1]).ok_or(Fault::Memory)?;
        let planes = inputs.bytes(0).chunks_exact(plane * BLOCK);
        let outs = output.bytes.chunks_exact_mut(line * places[0]);
        for (index, (from, out)) in planes.zip(outs).enumerate() {
            let block = index % maps;
            isa::run(Back { x: from, out: x, whole: (1.0, self.zero), signed });
            for (row, out) in out.chunks_exact_mut(line).enumerate() {
                isa::run(Plane {
                    x: x.as_chunks().0,
                    weights: &weights[block * taps..][..taps],
                    bias: &[0.0; BLOCK],
                    out: sums,
                    input,
                    kernel,
                    row,
                    places: [1, places[1]],
                    window: self.window,
                    activation: Activation::None,
                });
                let (bias, factors) = (&bias[block], &factors[block]);
                isa::run(End { sums, bias, factors, finish: self.finish, out });
            }
        }
        Ok(())
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let sizes = self.sizes(&inputs[0], &inputs[1]).ok();
        sizes.map_or(0, |(_, [input, _, output])| 64 * (input[0] * input[1] + output[1]))
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let taps = inputs[1].shape.dims().iter().skip(1).take(2).product::<usize>() as u64;
        (2 * taps + 3) * output.shape.elements() as u64
    }
}

/// Finishes sums that are floats.
struct End<'a> {
    sums: &'a [[f32; BLOCK]],
    bias: &'a [f32; BLOCK],
    factors: &'a [f32; BLOCK],
    finish: Finish,
    out: &'a mut [u8],
}

impl Routine for End<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (bias, factors) = (simd.load(self.bias), simd.load(self.factors));
        let size = self.finish.bytes();
        for (sums, to) in self.sums.iter().zip(self.out.chunks_exact_mut(BLOCK * size)) {
            let own = simd.mul(simd.add(simd.load(sums), bias), factors);
            self.finish.store(simd, own, to);
        }
    }
}
