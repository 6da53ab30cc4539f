//! Walks over some dims of a tensor for each index of the others: what reductions and pools of
//! everything are made of.

use crate::numbers::{BLOCK, Numbers, Wide};
use crate::shape::{RANK_MAX, Shape};

/// Dims that are walked together, neighbouring ones joined where possible.
#[derive(Clone, Copy, Debug)]
struct Dims {
    dims: [usize; RANK_MAX],
    strides: [usize; RANK_MAX],
    rank: usize,
}

impl Dims {
    fn new() -> Self {
        Self { dims: [1; RANK_MAX], strides: [0; RANK_MAX], rank: 0 }
    }

    fn push(&mut self, dim: usize, stride: usize) {
        if dim == 1 {
            return;
        }
        let joins = self.rank > 0 && self.strides[self.rank - 1] == stride * dim;
        let at = if joins { self.rank - 1 } else { self.rank };
        self.dims[at] = if joins { self.dims[at] * dim } else { dim };
        self.strides[at] = stride;
        self.rank = at + 1;
    }

    /// Calls `of` with the distance of each row's begin; the last dim is the row.
    #[inline(always)]
    fn rows(&self, mut of: impl FnMut(usize)) {
        let last = self.rank.max(1) - 1;
        let count = self.dims[..last].iter().product::<usize>();
        let mut index = [0; RANK_MAX];
        let mut at = 0;
        for _ in 0..count {
            of(at);
            for dim in (0..last).rev() {
                index[dim] += 1;
                at += self.strides[dim];
                if index[dim] < self.dims[dim] {
                    break;
                }
                at -= self.strides[dim] * self.dims[dim];
                index[dim] = 0;
            }
        }
    }

    /// Length of a row, and the distance within it.
    fn row(&self) -> (usize, usize) {
        let last = self.rank.max(1) - 1;
        (self.dims[last], self.strides[last])
    }
}

/// The dims of a tensor in two parts: those that are kept, and those that are walked for each index
/// of the kept ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes {
    kept: Dims,
    walked: Dims,
    /// Elements of a lane.
    pub(super) count: usize,
}

impl Lanes {
    /// Of a shape; `walked` says of each dim whether it is walked.
    pub(super) fn new(shape: &Shape, walked: impl Fn(usize) -> bool) -> Self {
        let mut own = Self { kept: Dims::new(), walked: Dims::new(), count: 1 };
        let strides = shape.strides();
        for (index, dim) in shape.dims().iter().enumerate() {
            if walked(index) {
                own.walked.push(*dim, strides[index]);
                own.count *= dim;
            } else {
                own.kept.push(*dim, strides[index]);
            }
        }
        own
    }

    /// Writes what `of` makes of each lane; `to` has an element for each.
    #[inline(always)]
    pub(super) fn each<T, U>(&self, from: &[T], to: &mut [U], of: impl Fn(Lane<'_, T>) -> U) {
        let (length, stride) = self.kept.row();
        let mut rows = to.chunks_exact_mut(length.max(1));
        self.kept.rows(|begin| {
            for (index, to) in rows.next().unwrap_or_default().iter_mut().enumerate() {
                let from = from.get(begin + index * stride..).unwrap_or_default();
                *to = of(Lane { from, lanes: self });
            }
        });
    }
}

impl Lanes {
    /// Calls `of` for each lane of a tensor of any type.
    pub(super) fn each_wide<W: Wide>(
        &self,
        from: Numbers<'_, W>,
        of: &mut dyn FnMut(usize, WideLane<'_, W>),
    ) {
        let (length, stride) = self.kept.row();
        let mut place = 0;
        self.kept.rows(|begin| {
            for index in 0..length {
                of(place + index, WideLane { from, begin: begin + index * stride, lanes: self });
            }
            place += length;
        });
    }
}

/// Elements of one lane of a tensor of any type.
#[derive(Clone, Copy)]
pub(super) struct WideLane<'a, W> {
    from: Numbers<'a, W>,
    begin: usize,
    lanes: &'a Lanes,
}

impl<W: Wide> WideLane<'_, W> {
    /// Calls `of` for blocks of the elements, in order.
    #[inline(never)]
    fn blocks(&self, of: &mut dyn FnMut(&[W])) {
        let (length, stride) = self.lanes.walked.row();
        let mut block = [W::ZERO; BLOCK];
        if self.lanes.count == 0 {
            return;
        }
        self.lanes.walked.rows(|row| {
            for first in (0..length).step_by(BLOCK) {
                let own = &mut block[..BLOCK.min(length - first)];
                self.from.read(self.begin + row + first * stride, stride, own);
                of(own);
            }
        });
    }

    /// Folds the elements, in order.
    pub(super) fn fold<A: Copy>(&self, first: A, of: impl Fn(A, W) -> A) -> A {
        let mut own = first;
        self.blocks(&mut |block| own = block.iter().fold(own, |own, x| of(own, *x)));
        own
    }
}

/// Elements of one lane.
#[derive(Clone, Copy)]
pub(super) struct Lane<'a, T> {
    from: &'a [T],
    lanes: &'a Lanes,
}

impl<T: Copy> Lane<'_, T> {
    /// Folds the elements, in order.
    #[inline(always)]
    pub(super) fn fold<A>(&self, first: A, of: impl Fn(A, T) -> A) -> A {
        if self.lanes.count == 0 {
            return first;
        }
        let (length, stride) = self.lanes.walked.row();
        let mut sum = Some(first);
        self.lanes.walked.rows(|begin| {
            let from = &self.from[begin..];
            let own = sum.take();
            sum = own.map(|own| match stride {
                1 => from[..length].iter().fold(own, |own, x| of(own, *x)),
                _ => {
                    from.iter().step_by(stride.max(1)).take(length).fold(own, |own, x| of(own, *x))
                }
            });
        });
        sum.unwrap_or_else(|| unreachable!("rows put it back"))
    }
}
