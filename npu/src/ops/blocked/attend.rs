//! Attention: for each query the values of all keys, by the shares of a softmax over products. The
//! products of a few queries are there at a time; nobody writes all of them.
//!
//! ```text
//! keys [T, D] ─pack─► [T / 16, D, 16] ─┐            values [T, E] ─pack─► [E / 16, T, 16] ─┐
//! 24 queries [D] ──────────────────────┴► products ─scale, mask─► exponentials ────────────┴► out
//! ```
#![allow(clippy::needless_range_loop, reason = "a tile is walked by row and depth")]

use super::conv::{GATHER, Gathered};
use super::{BLOCK, blocks, entry, sixes, tiles};
use crate::cast;
use crate::isa::{self, LANES, Routine, Simd};
use crate::ops::{Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::{ELEMENTS_MAX, RANK_MAX, Shape};
use crate::team::{self, Team};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const ENTRY: Line = Line {
    operands: (3, 4),
    ..entry("Attend", 1020, 3, |from| {
        let scale = from.f32()?;
        let [q, k, v, out, turned] =
            [from.flag()?, from.flag()?, from.flag()?, from.flag()?, from.flag()?];
        Ok(Box::new(Attend { scale, by_row: [q, k, v, out], keys_turned: turned }))
    })
};

/// Queries that are under way together: whole tiles of 6 and of 8.
const ROWS: usize = 24;

/// `softmax(scale * Q * Kᵀ + mask) * V`, the softmax over all keys. Operands: Q `[…, S, D]`, K
/// `[…, T, D]`, V `[…, T, E]` with the same dims before, and, if there is one, the mask, which
/// broadcasts to `[…, S, T]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attend {
    /// A factor of all products.
    pub scale: f32,
    /// Q, K, V and the result are `[N, S, H, D]`: heads are behind the rows.
    pub by_row: [bool; 4],
    /// K is `[…, D, T]`.
    pub keys_turned: bool,
}

/// A stack of matrices.
#[derive(Clone, Copy, Debug)]
struct Stack {
    /// Dims of the stack, and how many matrices that are.
    before: Shape,
    count: usize,
    rows: usize,
    width: usize,
    /// Heads that lie behind the rows; 1 where they are a part of the stack.
    heads: usize,
}

impl Stack {
    fn new(shape: &Shape, by_row: bool) -> Option<Self> {
        let (before, heads, rows, width) = match *shape.dims() {
            [n, s, h, d] if by_row => (Shape::new(&[n, h]).ok()?, h, s, d),
            [ref before @ .., rows, width] if !by_row => (Shape::new(before).ok()?, 1, rows, width),
            _ => return None,
        };
        let own = Self { before, count: before.elements(), rows, width, heads };
        (shape.elements() > 0).then_some(own)
    }

    /// Elements from a row to the next one of a matrix.
    fn stride(&self) -> usize {
        self.heads * self.width
    }

    /// Place of the first element of a row of a matrix.
    fn at(&self, matrix: usize, row: usize) -> usize {
        let (stack, head) = (matrix / self.heads, matrix % self.heads);
        ((stack * self.rows + row) * self.heads + head) * self.width
    }
}

/// All sizes.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    q: Stack,
    k: Stack,
    v: Stack,
    out: Stack,
    /// Floats of packed keys and values of a matrix.
    packed: [usize; 2],
    /// Floats of the products of a few queries.
    products: usize,
}

impl Sizes {
    /// Floats of all scratch memory.
    fn scratch(&self) -> Option<usize> {
        let packed = self.packed[0].checked_add(self.packed[1])?.checked_mul(self.q.count)?;
        packed.checked_add(self.products.checked_mul(GATHER)?).filter(|own| *own <= ELEMENTS_MAX)
    }
}

impl Attend {
    fn sizes(&self, q: &Shape, k: &Shape, v: &Shape) -> Option<(Sizes, Shape)> {
        let mut k = Stack::new(k, self.by_row[1])?;
        let (q, v) = (Stack::new(q, self.by_row[0])?, Stack::new(v, self.by_row[2])?);
        if self.keys_turned {
            (k.rows, k.width) = (k.width, k.rows);
        }
        let same = q.before == k.before && k.before == v.before;
        if !same || q.width != k.width || k.rows != v.rows || self.by_row[1] && self.keys_turned {
            return None;
        }
        let shape = match *q.before.dims() {
            [n, h] if self.by_row[3] => Shape::new(&[n, q.rows, h, v.width]),
            _ if self.by_row[3] => return None,
            ref before => Shape::new(&[before, &[q.rows, v.width]].concat()),
        };
        let shape = shape.ok()?;
        let out = Stack::new(&shape, self.by_row[3])?;
        let line = blocks(k.rows).checked_mul(BLOCK)?;
        let packed = [line.checked_mul(k.width)?, (blocks(v.width) * BLOCK).checked_mul(v.rows)?];
        let own = Sizes { q, k, v, out, packed, products: line.checked_mul(ROWS)? };
        own.scratch()?;
        Some((own, shape))
    }
}

impl Op for Attend {
    fn code(&self) -> u16 {
        ENTRY.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.f32(self.scale);
        self.by_row.iter().for_each(|own| into.flag(*own));
        into.flag(self.keys_turned);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [q, k, v] = [0, 1, 2].map(|index| inputs[index].shape);
        let refuse = || {
            let what = "no queries, keys and values with the same dims before, or too large";
            OpError::shape(format!("{q}, {k} and {v} with {self:?}: {what}"))
        };
        let (sizes, shape) = self.sizes(&q, &k, &v).ok_or_else(refuse)?;
        if let Some(mask) = inputs.get(3).map(|mask| mask.shape) {
            let whole = [sizes.q.before.dims(), &[sizes.q.rows, sizes.k.rows]].concat();
            let whole = Shape::new(&whole)?;
            if mask.broadcast(&whole) != Some(whole) {
                return Err(OpError::shape(format!("{mask} does not broadcast to {whole}")));
            }
        }
        Ok(TensorInfo::new(inputs[0].dtype, shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let [q, k, v] = [0, 1, 2].map(|index| inputs.info(index).shape);
        let (sizes, _) = self.sizes(&q, &k, &v).ok_or(Fault::Memory)?;
        let mask = inputs.optional::<f32>(3)?;
        let mask = mask.map(|values| Mask::new(values, &inputs.info(3).shape, &sizes));
        let (q, k, v) = (inputs.elements(0)?, inputs.elements(1)?, inputs.elements(2)?);
        let team = output.team;
        let (out, scratch) = output.elements_and_scratch::<f32>()?;
        let scratch = cast::elements_mut::<f32>(scratch).ok_or(Fault::Memory)?;
        let (keys, rest) = cut(scratch, sizes.packed[0] * sizes.q.count)?;
        let (values, products) = cut(rest, sizes.packed[1] * sizes.q.count)?;
        self.pack(&sizes, [k, v], [keys, values], team);
        let call = Call { q, keys, values, mask, sizes, scale: self.scale };
        let products = Gathered::new(products, sizes.products);
        let team = team.filter(|team| team.threads() <= products.count);
        let Sizes { k, out: to, .. } = sizes;
        let row = to.stride();
        let cost = 2 * k.rows * (k.width + to.width + 16) * to.heads;
        team::deal(team, out, (row, cost), |first, part| {
            products.with(|products| {
                team::planes(first, part, (to.rows, row), |plane, first, part| {
                    for (plane, part) in (plane..).zip(part.chunks_mut(to.rows * row)) {
                        for head in 0..to.heads {
                            call.rows(plane * to.heads + head, first, part, head, products);
                        }
                    }
                });
            });
        });
        Ok(())
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let [q, k, v] = [0, 1, 2].map(|index| inputs[index].shape);
        let floats = self.sizes(&q, &k, &v).and_then(|(sizes, _)| sizes.scratch());
        floats.map_or(0, |floats| floats.saturating_mul(size_of::<f32>()))
    }

    fn flops(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        let [q, k, v] = [0, 1, 2].map(|index| inputs[index].shape);
        let Some((sizes, _)) = self.sizes(&q, &k, &v) else { return 0 };
        let products = (sizes.q.count * sizes.q.rows) as u64 * sizes.k.rows as u64;
        products * (2 * (sizes.q.width + sizes.v.width) as u64 + 6)
    }
}

fn cut(scratch: &mut [f32], floats: usize) -> Result<(&mut [f32], &mut [f32]), Fault> {
    scratch.split_at_mut_checked(floats).ok_or(Fault::Memory)
}

impl Attend {
    /// Puts keys and values of all matrices into blocks, zeros behind the last column.
    fn pack(
        &self,
        sizes: &Sizes,
        [k, v]: [&[f32]; 2],
        [keys, values]: [&mut [f32]; 2],
        team: Option<&Team>,
    ) {
        let [of_keys, of_values] = sizes.packed;
        let (stack, turned) = (sizes.k, self.keys_turned);
        team::deal(team, keys, (of_keys, team::moved(of_keys)), |first, part| {
            for (matrix, to) in (first..).zip(part.chunks_exact_mut(of_keys)) {
                if turned {
                    let from = &k[matrix * stack.rows * stack.width..];
                    pack_columns(from, stack.rows, [stack.width, stack.rows], to);
                } else {
                    let from = &k[stack.at(matrix, 0)..];
                    pack_rows(from, stack.stride(), [stack.rows, stack.width], to);
                }
            }
        });
        let stack = sizes.v;
        team::deal(team, values, (of_values, team::moved(of_values)), |first, part| {
            for (matrix, to) in (first..).zip(part.chunks_exact_mut(of_values)) {
                let from = &v[stack.at(matrix, 0)..];
                pack_columns(from, stack.stride(), [stack.rows, stack.width], to);
            }
        });
    }
}

/// A matrix whose rows become columns, in blocks.
fn pack_rows(from: &[f32], stride: usize, [rows, width]: [usize; 2], to: &mut [f32]) {
    let (to, _) = to.as_chunks_mut::<BLOCK>();
    for (block, to) in to.chunks_exact_mut(width).enumerate() {
        let first = block * BLOCK;
        if rows - first >= BLOCK {
            let mut lines = [&from[..0]; BLOCK];
            for lane in 0..BLOCK {
                lines[lane] = &from[(first + lane) * stride..][..width];
            }
            for (at, to) in to.iter_mut().enumerate() {
                for lane in 0..BLOCK {
                    to[lane] = lines[lane][at];
                }
            }
            continue;
        }
        to.as_flattened_mut().fill(0.0);
        for lane in 0..rows - first {
            let line = &from[(first + lane) * stride..][..width];
            to.iter_mut().zip(line).for_each(|(to, x)| to[lane] = *x);
        }
    }
}

/// A matrix in blocks of columns.
fn pack_columns(from: &[f32], stride: usize, [rows, width]: [usize; 2], to: &mut [f32]) {
    let (to, _) = to.as_chunks_mut::<BLOCK>();
    for (block, to) in to.chunks_exact_mut(rows).enumerate() {
        let first = block * BLOCK;
        let count = (width - first).min(BLOCK);
        for (row, to) in to.iter_mut().enumerate() {
            let line = &from[row * stride + first..][..count];
            to[..count].copy_from_slice(line);
            to[count..].fill(0.0);
        }
    }
}

/// What is added to products: its values, and from matrix to matrix, row to row and key to key.
#[derive(Clone, Copy)]
struct Mask<'a> {
    values: &'a [f32],
    dims: Shape,
    strides: [usize; RANK_MAX],
    by: [usize; 2],
}

impl<'a> Mask<'a> {
    fn new(values: &'a [f32], shape: &Shape, sizes: &Sizes) -> Self {
        let dense = shape.strides();
        // By the dims of the products, from the last one on.
        let stride = |back: usize| match shape.rank().checked_sub(back + 1) {
            Some(at) if shape.dims()[at] > 1 => dense[at],
            _ => 0,
        };
        let dims = sizes.q.before;
        let mut strides = [0; RANK_MAX];
        for (at, own) in strides[..dims.rank()].iter_mut().enumerate() {
            *own = stride(dims.rank() - at + 1);
        }
        Self { values, dims, strides, by: [stride(1), stride(0)] }
    }

    /// What lies from the first row of a matrix on.
    fn of(&self, matrix: usize) -> &'a [f32] {
        let (mut rest, mut at) = (matrix, 0);
        for (dim, stride) in self.dims.dims().iter().zip(self.strides).rev() {
            at += rest % dim * stride;
            rest /= dim;
        }
        &self.values[at..]
    }
}

/// What all parts of a result share.
struct Call<'a> {
    q: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    mask: Option<Mask<'a>>,
    sizes: Sizes,
    scale: f32,
}

impl Call<'_> {
    /// Some rows of one matrix, which lie in a part of the result beside those of other heads.
    fn rows(&self, matrix: usize, first: usize, part: &mut [f32], head: usize, own: &mut [f32]) {
        let Sizes { q, k, out, packed, .. } = self.sizes;
        let line = blocks(k.rows) * BLOCK;
        let (keys, _) = self.keys[matrix * packed[0]..][..packed[0]].as_chunks();
        let (values, _) = self.values[matrix * packed[1]..][..packed[1]].as_chunks();
        let stride = out.stride();
        for (block, part) in part.chunks_mut(ROWS * stride).enumerate() {
            let (row, rows) = (first + block * ROWS, part.len() / stride);
            let mut parts = [self.scale; ROWS];
            isa::run(Product {
                x: &self.q[q.at(matrix, row)..],
                x_stride: q.stride(),
                packed: keys,
                factors: &parts,
                out: &mut *own,
                out_stride: line,
                sizes: [rows, k.width, line],
            });
            let mask = self.mask.map(|mask| (&mask.of(matrix)[row * mask.by[0]..], mask.by));
            let parts_of = &mut parts[..rows];
            isa::run(Lines { own: &mut *own, line, keys: k.rows, mask, parts: parts_of });
            isa::run(Product {
                x: &*own,
                x_stride: line,
                packed: values,
                factors: &parts,
                out: &mut part[head * out.width..],
                out_stride: stride,
                sizes: [rows, k.rows, out.width],
            });
        }
    }
}

/// Some rows times a matrix in blocks, and times a factor for each row.
struct Product<'a> {
    x: &'a [f32],
    x_stride: usize,
    packed: &'a [[f32; BLOCK]],
    factors: &'a [f32; ROWS],
    out: &'a mut [f32],
    out_stride: usize,
    /// Rows, depth and columns.
    sizes: [usize; 3],
}

impl Routine for Product<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let [rows, depth, _] = self.sizes;
        for (block, packed) in self.packed.chunks_exact(depth).enumerate() {
            if S::REGISTERS >= 32 {
                tiles!(rows, [8, 4, 1], |row, P| self.tile::<S, P>(simd, row, block, packed));
            } else if S::REGISTERS >= 8 {
                sixes!(rows, |row, P| self.tile::<S, P>(simd, row, block, packed));
            } else {
                tiles!(rows, [1], |row, P| self.tile::<S, P>(simd, row, block, packed));
            }
        }
    }
}

impl Product<'_> {
    /// `P` rows of a block.
    #[inline(always)]
    fn tile<S: Simd, const P: usize>(
        &mut self,
        simd: S,
        row: usize,
        block: usize,
        packed: &[[f32; BLOCK]],
    ) {
        let [_, depth, columns] = self.sizes;
        let mut x = [&self.x[..0]; P];
        for p in 0..P {
            x[p] = &self.x[(row + p) * self.x_stride..][..depth];
        }
        let mut sums = [simd.splat(0.0); P];
        for k in 0..depth {
            let vector = simd.load(&packed[k]);
            for p in 0..P {
                sums[p] = simd.mul_add(simd.splat(x[p][k]), vector, sums[p]);
            }
        }
        let first = block * BLOCK;
        let count = (columns - first).min(BLOCK);
        for p in 0..P {
            let out = &mut self.out[(row + p) * self.out_stride + first..][..count];
            simd.store_part(simd.mul(sums[p], simd.splat(self.factors[row + p])), out);
        }
    }
}

/// Products of some rows, which become exponentials; `parts` get what makes shares of them.
struct Lines<'a> {
    own: &'a mut [f32],
    line: usize,
    keys: usize,
    /// What is added before, from its row on, and from row to row and key to key.
    mask: Option<(&'a [f32], [usize; 2])>,
    parts: &'a mut [f32],
}

impl Routine for Lines<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let lines = self.own.chunks_exact_mut(self.line);
        for (row, (line, part)) in lines.zip(self.parts).enumerate() {
            let line = &mut line[..self.keys];
            if let Some((mask, [by_row, by_key])) = self.mask {
                let mask = &mask[row * by_row..];
                let (to, to_rest) = line.as_chunks_mut::<LANES>();
                if by_key == 0 {
                    let all = simd.splat(mask[0]);
                    for to in to {
                        simd.store(simd.add(simd.load(to), all), to);
                    }
                    simd.store_part(simd.add(simd.load_part(to_rest), all), to_rest);
                } else {
                    let (mask, rest) = mask[..self.keys].as_chunks::<LANES>();
                    for (to, mask) in to.iter_mut().zip(mask) {
                        simd.store(simd.add(simd.load(to), simd.load(mask)), to);
                    }
                    let sum = simd.add(simd.load_part(to_rest), simd.load_part(rest));
                    simd.store_part(sum, to_rest);
                }
            }
            *part = exponentials(simd, line);
        }
    }
}

/// Makes exponentials of a line, less its greatest value; answers what makes shares of them.
#[inline(always)]
fn exponentials<S: Simd>(simd: S, line: &mut [f32]) -> f32 {
    let (vectors, rest) = line.as_chunks_mut::<LANES>();
    let mut greatest = simd.splat(f32::NEG_INFINITY);
    for vector in &*vectors {
        greatest = simd.max(simd.load(vector), greatest);
    }
    let mut lanes = [f32::NEG_INFINITY; 2 * LANES];
    let (whole, part) = lanes.as_chunks_mut::<LANES>().0.split_at_mut(1);
    simd.store(greatest, &mut whole[0]);
    part[0][..rest.len()].copy_from_slice(rest);
    let greatest = simd.splat(-lanes.iter().fold(f32::NEG_INFINITY, |max, x| max.max(*x)));
    let mut sums = simd.splat(0.0);
    for vector in vectors {
        let own = isa::exp(simd, simd.add(simd.load(vector), greatest));
        simd.store(own, vector);
        sums = simd.add(sums, own);
    }
    let own = isa::exp(simd, simd.add(simd.load_part(rest), greatest));
    simd.store_part(own, rest);
    1.0 / (simd.sum(sums) + rest.iter().sum::<f32>())
}

#[cfg(test)]
mod tests;
