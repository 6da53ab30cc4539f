//! Sums of products of bytes, sixteen results at once, and a product with a constant matrix.
//!
//! Operands lie as numbers of 16 bits without their zeros, two neighbours of a sum together, so
//! that one instruction multiplies both and adds: every sum is exact, with signs and without. This
//! layout serves all instruction sets (docs/adr/0017). A machine that multiplies four bytes at once
//! has weights of eight bits as fours besides (`fours`): x stays what it is then, but for its sign,
//! and its zero is taken out of the sums. Both forms give the same bits.
#![allow(clippy::needless_range_loop, reason = "a tile is walked by row, block and depth")]

use super::{BLOCK, Fours, Panel, blocks, tiles};
use crate::DataType;
use crate::cast::{self, Plain};
use crate::isa::{self, Routine, Simd};
use crate::ops::quantize::{ends, limits, store_bytes};
use crate::ops::{Activation, Line, Op, OpError};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{ELEMENTS_MAX, Shape};
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

pub(super) const BYTES: &[DataType] = &[DataType::INT8, DataType::UINT8];
pub(super) const PAIRS: &[DataType] = &[DataType::INT16];
pub(super) const SUMS: &[DataType] = &[DataType::INT32];
pub(super) const FLOATS: &[DataType] = &[DataType::FLOAT];

pub(super) const ENTRY: Line = Line {
    name: "QuantisedDense",
    code: 1011,
    operands: (4, 5),
    types: &[(DataType::INT8, 1), (DataType::UINT8, 1)],
    mixed: &[(1, PAIRS), (2, SUMS), (3, FLOATS), (4, BYTES)],
    decode: |from| {
        let (columns, zero) = (from.size()?, from.u32()?.cast_signed());
        let own = QuantisedDense { columns, zero, finish: Finish::decode(from)? };
        check_zero(zero)?;
        Ok(Box::new(own))
    },
};

/// Rows of results that are made before they are finished.
const CHUNK: usize = 24;

/// What becomes of a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finish {
    /// Type of the result: a sum as it is, a float, or a byte.
    pub to: DataType,
    /// The zero of a byte.
    pub zero: i32,
    /// Applied to the sum with its factor.
    pub activation: Activation,
    /// A factor behind the activation.
    pub factor: f32,
}

/// Refuses a zero that no byte is.
pub(super) fn check_zero(zero: i32) -> Result<(), OpError> {
    if (-128..=255).contains(&zero) {
        return Ok(());
    }
    Err(OpError::params(format!("zero {zero} is no byte")))
}

impl Finish {
    /// The sum as it is.
    pub const SUM: Self =
        Self { to: DataType::INT32, zero: 0, activation: Activation::None, factor: 1.0 };

    pub(super) fn encode(&self, into: &mut ParamWriter) {
        into.u32(self.to.0.cast_unsigned());
        into.u32(self.zero.cast_unsigned());
        self.activation.encode(into);
        into.f32(self.factor);
    }

    pub(super) fn decode(from: &mut ParamReader<'_>) -> Result<Self, OpError> {
        let to = DataType(from.u32()?.cast_signed());
        let zero = from.u32()?.cast_signed();
        let own = Self { to, zero, activation: Activation::decode(from)?, factor: from.f32()? };
        let (low, high) = if BYTES.contains(&to) { ends(to) } else { (0, 0) };
        let known = BYTES.contains(&to) || to == DataType::FLOAT || to == DataType::INT32;
        if !known || !(low..=high).contains(&zero) {
            return Err(OpError::params(format!("{own:?} is no end of a sum")));
        }
        Ok(own)
    }

    pub(super) fn bytes(&self) -> usize {
        element_size(self.to).unwrap_or(1)
    }

    /// Writes a vector of sums with their factors, as many as there is room for.
    #[inline(always)]
    pub(super) fn store<S: Simd>(self, simd: S, v: S::V, to: &mut [u8]) {
        let own = self.activation.of_vector(simd, v);
        let own = simd.mul(own, simd.splat(self.factor));
        if self.to == DataType::FLOAT {
            let mut lanes = [0f32; BLOCK];
            simd.store(own, &mut lanes);
            let words = to.as_chunks_mut().0.iter_mut().zip(lanes.iter());
            words.for_each(|(to, x): (&mut [u8; 4], _)| *to = x.to_le_bytes());
        } else {
            store_bytes(simd, own, limits(self.zero, self.to), self.zero, to);
        }
    }
}

/// Where the words of a sum lie in x: three loops, their lengths and steps, and words in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taps {
    pub(super) counts: [usize; 3],
    pub(super) steps: [usize; 3],
    pub(super) run: usize,
}

impl Taps {
    /// One run.
    pub(super) fn one(run: usize) -> Self {
        Self { counts: [1; 3], steps: [0; 3], run }
    }
}

/// Weights in one of both forms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights<'a> {
    panels: &'a [Panel],
    /// Words of a sum.
    pub(super) depth: usize,
    /// Of the columns, of fours only.
    sums: Option<&'a [[i32; BLOCK]]>,
    /// What is taken out of x behind the product: its zero, as a byte without a sign.
    zero: i32,
}

impl<'a> Weights<'a> {
    /// The weights of a task: as fours where it has them. `x` is the type of x, with its zero.
    pub(super) fn of(
        inputs: &'a dyn Inputs,
        fours: Option<Fours>,
        x: (bool, i32),
    ) -> Result<Self, Fault> {
        if let Some((fours, packed)) = fours.zip(inputs.fours()) {
            let packed = fours.read(packed)?;
            let (sums, zero) = (Some(packed.sums), without_sign(x));
            return Ok(Self { panels: packed.panels, depth: fours.depth(), sums, zero });
        }
        let (panels, _) = inputs.elements::<i32>(1)?.as_chunks();
        let depth = inputs.dims(1).get(1).copied().unwrap_or(0);
        Ok(Self { panels, depth, sums: None, zero: 0 })
    }

    /// Whether they are fours.
    pub(super) fn are_fours(&self) -> bool {
        self.sums.is_some()
    }

    /// From a block on.
    pub(super) fn from(self, block: usize) -> Self {
        let sums = self.sums.map(|sums| &sums[block..]);
        Self { panels: &self.panels[block * self.depth..], sums, ..self }
    }
}

/// The zero of x, which has a sign or not, as that of a byte without one.
fn without_sign((signed, zero): (bool, i32)) -> i32 {
    if signed { zero + 128 } else { zero }
}

/// Sums for some rows and blocks. Row `r` of the result reads x from `r * step` on.
pub(super) struct Product<'a> {
    /// Pairs or fours, each as one word: the first number is in the low bits.
    pub(super) x: &'a [i32],
    pub(super) step: usize,
    pub(super) taps: Taps,
    pub(super) weights: Weights<'a>,
    pub(super) bias: &'a [[i32; BLOCK]],
    pub(super) factors: &'a [[f32; BLOCK]],
    pub(super) rows: usize,
    /// Elements of a row of the result, and the distance of rows.
    pub(super) columns: usize,
    pub(super) finish: Finish,
    pub(super) out: &'a mut [u8],
}

/// A product of one form.
struct Form<'a, const FOURS: bool>(Product<'a>);

impl<const FOURS: bool> Routine for Form<'_, FOURS> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.0.all::<S, FOURS>(simd);
    }
}

impl Product<'_> {
    /// Computes and writes all results.
    pub(super) fn run(self) {
        if self.weights.are_fours() {
            isa::run_fours(Form::<true>(self));
        } else {
            isa::run_pairs(Form::<false>(self));
        }
    }

    #[inline(always)]
    fn all<S: Simd, const FOURS: bool>(mut self, simd: S) {
        let (rows, blocks) = (self.rows, self.bias.len());
        let mut sums = [[0i32; BLOCK]; CHUNK];
        let mut block = 0;
        while block < blocks {
            let wide = S::REGISTERS >= 8 && rows == 1 && blocks - block >= 5;
            let mut first = 0;
            while first < rows {
                let count = CHUNK.min(rows - first);
                if wide {
                    self.tile::<S, FOURS, 1, 5>(simd, 0, block, &mut sums);
                } else if S::REGISTERS >= 32 && FOURS {
                    // A sum waits for the one before it as long as two instructions begin ten.
                    tiles!(count, [12, 6, 2, 1], |row, P| {
                        self.tile::<S, FOURS, P, 1>(simd, first + row, block, &mut sums[row..]);
                    });
                } else if S::REGISTERS >= 8 {
                    tiles!(count, [6, 2, 1], |row, P| {
                        self.tile::<S, FOURS, P, 1>(simd, first + row, block, &mut sums[row..]);
                    });
                } else {
                    tiles!(count, [1], |row, P| {
                        self.tile::<S, FOURS, P, 1>(simd, first + row, block, &mut sums[row..]);
                    });
                }
                let made = if wide { &sums[..5] } else { &sums[..count] };
                self.finish_all(simd, first, (block, wide), made);
                first += count;
            }
            block += if wide { 5 } else { 1 };
        }
    }

    /// What the sums of a block begin with.
    #[inline(always)]
    fn first<const FOURS: bool>(&self, block: usize) -> [i32; BLOCK] {
        let mut own = self.bias[block];
        if let Some(sums) = self.weights.sums.filter(|_| FOURS) {
            for (own, sum) in own.iter_mut().zip(&sums[block]) {
                *own = own.wrapping_sub(sum.wrapping_mul(self.weights.zero));
            }
        }
        own
    }

    /// `P` rows of `B` blocks; sums of a row behind one another.
    #[inline(always)]
    fn tile<S: Simd, const FOURS: bool, const P: usize, const B: usize>(
        &self,
        simd: S,
        row: usize,
        block: usize,
        to: &mut [[i32; BLOCK]],
    ) {
        let [count, count_y, count_x] = self.taps.counts;
        // A run of a length that the compiler does not know is no reason to add in another order,
        // for which there are not enough registers.
        let run = self.taps.run;
        let words = count * count_y * count_x * run;
        let panels = self.weights.panels;
        let mut weights = [&panels[..0]; B];
        let mut sums = [[simd.whole(&[0; BLOCK]); B]; P];
        for b in 0..B {
            weights[b] = &panels[(block + b) * words..][..words];
            let bias = simd.whole(&self.first::<FOURS>(block + b));
            for p in 0..P {
                sums[p][b] = bias;
            }
        }
        let mut done = 0;
        for plane in 0..count {
            for y in 0..count_y {
                let line = plane * self.taps.steps[0] + y * self.taps.steps[1];
                for tap in 0..count_x {
                    let from = row * self.step + line + tap * self.taps.steps[2];
                    let mut x = [&self.x[..0]; P];
                    for p in 0..P {
                        x[p] = &self.x[from + p * self.step..][..run];
                    }
                    let mut own = [&panels[..0]; B];
                    for b in 0..B {
                        own[b] = &weights[b][done..][..run];
                    }
                    done += run;
                    for k in 0..run {
                        let mut vectors = [sums[0][0]; B];
                        for b in 0..B {
                            vectors[b] = simd.whole(&own[b][k]);
                        }
                        for p in 0..P {
                            let x = simd.word(x[p][k]);
                            for b in 0..B {
                                sums[p][b] = if FOURS {
                                    simd.dot_fours(x, vectors[b], sums[p][b])
                                } else {
                                    simd.dot(x, vectors[b], sums[p][b])
                                };
                            }
                        }
                    }
                }
            }
        }
        for p in 0..P {
            for b in 0..B {
                simd.store_whole(sums[p][b], &mut to[p * B + b]);
            }
        }
    }

    /// Writes results: of rows from one on, or of blocks.
    #[inline(always)]
    fn finish_all<S: Simd>(
        &mut self,
        simd: S,
        row: usize,
        (block, wide): (usize, bool),
        sums: &[[i32; BLOCK]],
    ) {
        let size = self.finish.bytes();
        for (index, sums) in sums.iter().enumerate() {
            let (row, block) = if wide { (row, block + index) } else { (row + index, block) };
            let own = (self.columns - block * BLOCK).min(BLOCK);
            let at = row * self.columns + block * BLOCK;
            let to = &mut self.out[at * size..][..own * size];
            if self.finish.to == DataType::INT32 {
                let words = to.as_chunks_mut().0.iter_mut().zip(sums);
                words.for_each(|(to, sum): (&mut [u8; 4], _)| *to = sum.to_le_bytes());
                continue;
            }
            let own = simd.floats(simd.whole(sums));
            let own = simd.mul(own, simd.load(&self.factors[block]));
            self.finish.store(simd, own, to);
        }
    }
}

/// What a number of x is in a sum of pairs or of fours.
pub(super) trait Number: Plain {
    /// Numbers of a word.
    const COUNT: usize;
    /// Of a byte, with a sign or without, and its zero.
    fn of(x: u8, zero: (bool, i32)) -> Self;
    /// Of a place without one: it takes no part in the result.
    fn padding(zero: (bool, i32)) -> Self;
}

/// Of pairs: a byte less its zero.
impl Number for i16 {
    const COUNT: usize = 2;

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a difference of bytes")]
    fn of(x: u8, zero: (bool, i32)) -> Self {
        Self::from(u8::of(x, zero)) - without_sign(zero) as Self
    }

    #[inline(always)]
    fn padding(_: (bool, i32)) -> Self {
        0
    }
}

/// Of fours: a byte without a sign, and its zero.
impl Number for u8 {
    const COUNT: usize = 4;

    #[inline(always)]
    fn of(x: u8, (signed, _): (bool, i32)) -> Self {
        // A byte with a sign is the byte with its first bit changed, less 128.
        x ^ if signed { 0x80 } else { 0 }
    }

    #[inline(always)]
    fn padding(zero: (bool, i32)) -> Self {
        without_sign(zero).to_le_bytes()[0]
    }
}

/// Bytes as numbers of a sum.
pub(super) struct Spread<'a, T> {
    pub(super) x: &'a [u8],
    /// Whether x has a sign, and its zero.
    pub(super) zero: (bool, i32),
    pub(super) to: &'a mut [T],
}

impl<T: Number> Routine for Spread<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let zero = self.zero;
        self.to.iter_mut().zip(self.x).for_each(|(to, x)| *to = T::of(*x, zero));
    }
}

/// Rows of x as the words of a sum, in scratch memory; where they are that already, as they are.
fn rows<'a, T: Number>(
    x: &'a [u8],
    depth: usize,
    zero: (bool, i32),
    scratch: &'a mut [u8],
) -> Result<&'a [i32], Fault> {
    if T::COUNT == 4 && !zero.0 && depth.is_multiple_of(4) {
        return cast::elements(x).ok_or(Fault::Memory);
    }
    let own = cast::elements_mut::<T>(scratch).ok_or(Fault::Memory)?;
    let (each, count) = (depth.next_multiple_of(T::COUNT), x.len() / depth);
    let own = own.get_mut(..count * each).ok_or(Fault::Memory)?;
    for (x, to) in x.chunks_exact(depth).zip(own.chunks_exact_mut(each)) {
        let (to, rest) = to.split_at_mut(depth);
        isa::run(Spread { x, zero, to });
        rest.fill(T::padding(zero));
    }
    words(own)
}

/// Numbers as the words that they make.
pub(super) fn words<T: Number>(x: &[T]) -> Result<&[i32], Fault> {
    cast::elements(cast::bytes_of(x)).ok_or(Fault::Memory)
}

/// A matrix `[K, N]` of numbers that are no longer than 9 bits as `[N / 16, K / 2, 16, 2]`,
/// zeros behind the last row and column; gives the dims too.
#[must_use]
pub fn pack_pairs(
    [depth, columns]: [usize; 2],
    matrix: impl Fn(usize, usize) -> i16,
) -> ([usize; 4], Vec<i16>) {
    let own = [blocks(columns), depth.div_ceil(2), BLOCK, 2];
    let mut packed = vec![0; own.iter().product()];
    for k in 0..depth {
        for column in 0..columns {
            let pair = column / BLOCK * own[1] + k / 2;
            packed[(pair * BLOCK + column % BLOCK) * 2 + k % 2] = matrix(k, column);
        }
    }
    (own, packed)
}

/// x by a constant matrix. Operands: x `[…, K]` of bytes, weights as [`pack_pairs`] has them, a
/// bias of whole numbers and factors `[N / 16, 16]`, and the zero of x when it is no parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantisedDense {
    /// N, of which the blocks hold no more than a part of one.
    pub columns: usize,
    /// The zero of x.
    pub zero: i32,
    /// What becomes of a sum.
    pub finish: Finish,
}

impl Op for QuantisedDense {
    fn code(&self) -> u16 {
        ENTRY.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.columns);
        into.u32(self.zero.cast_unsigned());
        self.finish.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [x, w, bias, factors] = [0, 1, 2, 3].map(|index| inputs[index].shape);
        let own = blocks(self.columns);
        let mut dims = x.dims().to_vec();
        let fits = match (dims.last_mut(), w.dims()) {
            (Some(last), [count, pairs, BLOCK, 2]) => {
                let fits = last.div_ceil(2) == *pairs && *last > 0 && *count == own;
                *last = self.columns;
                fits
            }
            _ => false,
        };
        let zero = inputs
            .get(4)
            .is_none_or(|zero| zero.shape.elements() == 1 && zero.dtype == inputs[0].dtype);
        let lists = bias.dims() == [own, BLOCK] && factors.dims() == [own, BLOCK];
        if !fits || !lists || !zero || w.elements() == 0 || x.elements() > ELEMENTS_MAX / 32 {
            let what = format!(
                "x is {x}, weights are {w}, the bias is {bias}, factors are {factors}; \
                 expected […, K], [{own}, K / 2, 16, 2], [{own}, 16], [{own}, 16]"
            );
            return Err(OpError::shape(what));
        }
        Ok(TensorInfo::new(self.finish.to, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let depth = inputs.dims(0).last().copied().unwrap_or(1);
        let (bias, _) = inputs.elements(2)?.as_chunks();
        let (factors, _) = inputs.elements(3)?.as_chunks();
        let signed = inputs.info(0).dtype == DataType::INT8;
        let zero = match inputs.count() > 4 {
            true if signed => i32::from(inputs.bytes(4)[0].cast_signed()),
            true => i32::from(inputs.bytes(4)[0]),
            false => self.zero,
        };
        let zero = (signed, zero);
        let weights = Weights::of(inputs, whole_rows(inputs.dims(1)), zero)?;
        let (x, count) = (inputs.bytes(0), inputs.bytes(0).len() / depth);
        let x = match weights.are_fours() {
            true => rows::<u8>(x, depth, zero, output.scratch)?,
            false => rows::<i16>(x, depth, zero, output.scratch)?,
        };
        let (finish, columns, size) = (self.finish, self.columns, self.finish.bytes());
        let (several, step) = (count > 1, weights.depth);
        let taps = Taps::one(std::hint::black_box(step));
        // Rows together read the weights once; a single one is cut into columns.
        let (tile, cost) = if several { (6, columns) } else { (5, BLOCK) };
        let unit = (tile * cost * size, depth * tile * cost);
        team::deal(output.team, output.bytes, unit, |first, out| {
            let first = first * tile;
            let own = Product {
                x: if several { &x[first * step..] } else { x },
                step,
                taps,
                weights: if several { weights } else { weights.from(first) },
                bias: if several { bias } else { &bias[first..][..blocks(out.len() / size)] },
                factors: if several { factors } else { &factors[first..] },
                rows: if several { out.len() / columns / size } else { 1 },
                columns: if several { columns } else { out.len() / size },
                finish,
                out,
            };
            own.run();
        });
        Ok(())
    }

    fn fours(&self, inputs: &[TensorInfo]) -> Option<Fours> {
        whole_rows(inputs[1].shape.dims())
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let depth = inputs[0].shape.dims().last().copied().unwrap_or(1).max(1);
        inputs[0].shape.elements() / depth * depth.div_ceil(2) * 4
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let depth = inputs[0].shape.dims().last().copied().unwrap_or(0) as u64;
        (2 * depth + 3) * output.shape.elements() as u64
    }
}

/// Rows of x are runs.
fn whole_rows(dims: &[usize]) -> Option<Fours> {
    Fours::new(dims, *dims.get(1)?)
}
