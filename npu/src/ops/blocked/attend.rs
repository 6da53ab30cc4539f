//! Attention: for each query the values of all keys, by the shares of a softmax over products. The
//! products of a few queries are there at a time; nobody writes all of them.
//!
//! ```text
//! keys [T, D] ─pack─► [T / 16, D, 16] ─┐            values [T, E] ─pack─► [E / 16, T, 16] ─┐
//! 24 queries [D] ──────────────────────┴► products ─scale, mask─► exponentials ────────────┴► out
//! ```
#![allow(clippy::needless_range_loop, reason = "a block is walked by lane")]

use super::conv::{GATHER, Gathered};
use super::dense::Rows;
use super::{BLOCK, blocks, entry};
use crate::cast;
use crate::isa::{self, LANES, Routine, Simd};
use crate::ops::{Activation, Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::{ELEMENTS_MAX, RANK_MAX, Shape};
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const ENTRY: Line = Line {
    operands: (3, 4),
    ..entry("Attend", 1020, 3, |from| {
        let scale = from.f32()?;
        let [q, k, v, out, turned] =
            [from.flag()?, from.flag()?, from.flag()?, from.flag()?, from.flag()?];
        Ok(Box::new(Attend {
            scale,
            by_row: [q, k, v, out],
            keys_turned: turned,
            hides: from.flag()?,
        }))
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
    /// Where the mask is below [`Attend::HIDDEN`], it stands in the place of the product, whatever
    /// that is: also of one that is no number.
    pub hides: bool,
}

impl Attend {
    /// From here down a number is as good as hidden: a product that it is added to changes nothing.
    pub const HIDDEN: f32 = -1e30;
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
        into.flag(self.hides);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [q, k, v] = [0, 1, 2].map(|index| inputs[index].shape);
        let refuse = || {
            let what = "no queries, keys and values with the same dims before, or too large";
            OpError::shape(format!("{q}, {k} and {v}: {what}"))
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
        self.pack(&sizes, [k, v], [keys, values]);
        let (scale, hides) = (self.scale, self.hides);
        let call = Call { q, keys, values, mask, sizes, scale, hides };
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
    fn pack(&self, sizes: &Sizes, [k, v]: [&[f32]; 2], [keys, values]: [&mut [f32]; 2]) {
        let [of_keys, of_values] = sizes.packed;
        let stack = sizes.k;
        for (matrix, to) in keys.chunks_exact_mut(of_keys).enumerate() {
            if self.keys_turned {
                let from = &k[matrix * stack.rows * stack.width..];
                pack_columns(from, stack.rows, [stack.width, stack.rows], to);
            } else {
                let from = &k[stack.at(matrix, 0)..];
                pack_rows(from, stack.stride(), [stack.rows, stack.width], to);
            }
        }
        let stack = sizes.v;
        for (matrix, to) in values.chunks_exact_mut(of_values).enumerate() {
            let from = &v[stack.at(matrix, 0)..];
            pack_columns(from, stack.stride(), [stack.rows, stack.width], to);
        }
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
    hides: bool,
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
            isa::run(Rows {
                x: &self.q[q.at(matrix, row)..],
                weights: keys,
                bias: None,
                out: &mut *own,
                strides: [q.stride(), line],
                rows,
                depth: k.width,
                columns: line,
                activation: Activation::None,
            });
            let mask = self.mask.map(|mask| (&mask.of(matrix)[row * mask.by[0]..], mask.by));
            let products = &mut own[..rows * line];
            let (scale, hides) = (self.scale, self.hides);
            isa::run(Lines { products, line, keys: k.rows, scale, mask, hides });
            isa::run(Rows {
                x: &*own,
                weights: values,
                bias: None,
                out: &mut part[head * out.width..],
                strides: [line, stride],
                rows,
                depth: k.rows,
                columns: out.width,
                activation: Activation::None,
            });
        }
    }
}

/// Products of some rows, which become shares.
struct Lines<'a> {
    products: &'a mut [f32],
    line: usize,
    keys: usize,
    /// A factor, before the mask.
    scale: f32,
    /// What is added, from the first row on, and from row to row and key to key.
    mask: Option<(&'a [f32], [usize; 2])>,
    hides: bool,
}

impl Routine for Lines<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let scale = simd.splat(self.scale);
        for (row, line) in self.products.chunks_exact_mut(self.line).enumerate() {
            let line = &mut line[..self.keys];
            let (all, mask) = match self.mask {
                None => (0.0, &[][..]),
                Some((mask, [by_row, 0])) => (mask[row * by_row], &[][..]),
                Some((mask, [by_row, _])) => (0.0, &mask[row * by_row..][..self.keys]),
            };
            if self.hides {
                if all <= Attend::HIDDEN {
                    line.fill(0.0);
                }
                for (product, added) in line.iter_mut().zip(mask) {
                    *product = if *added <= Attend::HIDDEN { 0.0 } else { *product };
                }
            }
            let (all, (mask, mask_rest)) = (simd.splat(all), mask.as_chunks::<LANES>());
            let (vectors, rest) = line.as_chunks_mut::<LANES>();
            let mut greatest = simd.splat(f32::NEG_INFINITY);
            for (at, vector) in vectors.iter_mut().enumerate() {
                let added = if mask.is_empty() { all } else { simd.load(&mask[at]) };
                let own = simd.mul_add(simd.load(vector), scale, added);
                simd.store(own, vector);
                greatest = simd.max(own, greatest);
            }
            let added = if mask_rest.is_empty() { all } else { simd.load_part(mask_rest) };
            simd.store_part(simd.mul_add(simd.load_part(rest), scale, added), rest);
            let mut lanes = [0.0; LANES];
            simd.store(greatest, &mut lanes);
            let both = lanes.iter().chain(&*rest);
            let greatest = simd.splat(-both.fold(f32::NEG_INFINITY, |max, x| max.max(*x)));
            let mut sums = simd.splat(0.0);
            for vector in &mut *vectors {
                let own = isa::exp(simd, simd.add(simd.load(vector), greatest));
                simd.store(own, vector);
                sums = simd.add(sums, own);
            }
            let own = isa::exp(simd, simd.add(simd.load_part(rest), greatest));
            simd.store_part(own, rest);
            let part = simd.splat(1.0 / (simd.sum(sums) + rest.iter().sum::<f32>()));
            for vector in vectors {
                simd.store(simd.mul(simd.load(vector), part), vector);
            }
            simd.store_part(simd.mul(simd.load_part(rest), part), rest);
        }
    }
}

#[cfg(test)]
mod tests;
