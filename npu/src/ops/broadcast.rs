//! Two operands that broadcast to one result: parameters, inference and the walk.
//!
//! From opset 7 on, numpy's rule. Before, the attributes `broadcast` and `axis` say that the second
//! operand's dims stand at `axis` of the first one's; the rest of the second are ones.

use crate::cast::Plain;
use crate::isa::LANES;
use crate::numbers::{BLOCK, Wide};
use crate::ops::{Node, OpError, axis};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// How the second operand meets the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broadcast {
    /// By numpy's rule, in both directions.
    Numpy,
    /// Not at all: the shapes are equal (opset 6 and before).
    Equal,
    /// The second one's dims begin at this dim of the first (opset 6 and before).
    At(usize),
}

impl Broadcast {
    /// Reads the attributes of a node.
    pub(super) fn import(node: &Node<'_>) -> Result<Self, OpError> {
        if node.opset >= 7 {
            return Ok(Self::Numpy);
        }
        let given = node.int("axis")?;
        if !node.flag("broadcast", false)? {
            return Ok(Self::Equal);
        }
        let (rank, other) = (node.input(0)?.info.shape.rank(), node.input(1)?.info.shape.rank());
        let suffix = rank.checked_sub(other).ok_or_else(|| {
            OpError::shape(format!("input 1 has {other} dims, more than input 0 with {rank}"))
        })?;
        let Some(given) = given else { return Ok(Self::At(suffix)) };
        let at = if other == 0 && given == i64::try_from(rank).unwrap_or(-1) {
            rank
        } else {
            axis("axis", given, rank)?
        };
        Ok(Self::At(at))
    }

    pub(super) fn encode(self, into: &mut ParamWriter) {
        let (kind, at) = match self {
            Self::Numpy => (0, 0),
            Self::Equal => (1, 0),
            Self::At(at) => (2, at),
        };
        into.u32(kind);
        into.size(at);
    }

    pub(super) fn decode(from: &mut ParamReader<'_>) -> Result<Self, OpError> {
        match (from.u32()?, from.size()?) {
            (0, 0) => Ok(Self::Numpy),
            (1, 0) => Ok(Self::Equal),
            (2, at) if at <= RANK_MAX => Ok(Self::At(at)),
            (kind, at) => Err(OpError::params(format!("broadcast {kind} at {at} is none"))),
        }
    }

    /// The second operand's shape with the ones that numpy's rule would not add.
    fn second(self, a: &Shape, b: &Shape) -> Option<Shape> {
        let Self::At(at) = self else { return Some(*b) };
        let mut dims = [1; RANK_MAX];
        let dims = dims.get_mut(..a.rank())?;
        dims.get_mut(at..at + b.rank())?.copy_from_slice(b.dims());
        Shape::new(dims).ok()
    }

    /// Whether operands have the shape of the result, or one element.
    pub(super) fn is_by_place(self, inputs: &[TensorInfo], output: &TensorInfo) -> bool {
        let one = |input: &TensorInfo| input.shape.elements() == 1;
        let same = |input: &TensorInfo| input.shape == output.shape;
        match self {
            Self::Numpy => inputs.iter().all(|input| same(input) || one(input)),
            Self::Equal => true,
            Self::At(_) => false,
        }
    }

    pub(super) fn infer(self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (a, b) = (inputs[0].shape, inputs[1].shape);
        let shape = match self {
            Self::Equal => (a == b).then_some(a),
            Self::Numpy => a.broadcast(&b),
            Self::At(_) => {
                self.second(&a, &b).and_then(|b| a.broadcast(&b)).filter(|shape| *shape == a)
            }
        };
        let rule = match self {
            Self::Numpy => "numpy's rule".to_owned(),
            Self::Equal => "`broadcast` = 0: equal shapes".to_owned(),
            Self::At(at) => format!("`broadcast` = 1 at axis {at}"),
        };
        let what = || OpError::shape(format!("{a} and {b} do not broadcast ({rule})"));
        Ok(TensorInfo::new(inputs[0].dtype, shape.ok_or_else(what)?))
    }

    /// Computes `of` for every element of the result, of any types, by one loop that all functions
    /// share. What is wanted to be fast goes through [`Self::run`].
    #[inline(never)]
    pub(super) fn run_wide<A: Wide, B: Wide>(
        self,
        inputs: &dyn Inputs,
        output: &mut Output<'_>,
        of: fn(A, B) -> A,
    ) -> Result<(), Fault> {
        let (a, b) = (inputs.numbers::<A>(0)?, inputs.numbers::<B>(1)?);
        let shape = output.info.shape;
        let second = self.second(&inputs.info(0).shape, &inputs.info(1).shape);
        let walk = Walk::new(&shape, [&inputs.info(0).shape, &second.ok_or(Fault::Memory)?]);
        let (mut xs, mut ys) = ([A::ZERO; BLOCK], [B::ZERO; BLOCK]);
        let mut to = output.numbers::<A>()?;
        walk.blocks(shape.elements(), &mut |first, count, at, strides| {
            a.read(at[0], strides[0], &mut xs[..count]);
            b.read(at[1], strides[1], &mut ys[..count]);
            xs.iter_mut().zip(&ys[..count]).for_each(|(x, y)| *x = of(*x, *y));
            to.write(first, &xs[..count]);
        });
        Ok(())
    }

    /// Computes `of` for every element of the result.
    pub(super) fn run<A: Plain, B: Plain, T: Plain>(
        self,
        inputs: &dyn Inputs,
        output: &mut Output<'_>,
        of: impl Fn(A, B) -> T + Copy + Sync,
    ) -> Result<(), Fault> {
        let (a, b) = (inputs.elements::<A>(0)?, inputs.elements::<B>(1)?);
        let shape = output.info.shape;
        let second = self.second(&inputs.info(0).shape, &inputs.info(1).shape);
        let walk = Walk::new(&shape, [&inputs.info(0).shape, &second.ok_or(Fault::Memory)?]);
        let team = output.team;
        let out = output.elements::<T>()?;
        let row = walk.row();
        if walk.rank > 1 {
            team::deal(team, out, (row, team::moved(row)), |first, out| {
                walk.run(a, b, first * row, out, of);
            });
        } else {
            team::deal(team, out, (1, team::moved(1)), |first, out| walk.run(a, b, first, out, of));
        }
        Ok(())
    }
}

/// Dims of a result with the strides of its operands, neighbouring dims joined where possible.
pub(super) struct Walk<const N: usize> {
    /// Dims, outermost first.
    pub(super) dims: [usize; RANK_MAX],
    /// Of each operand: elements from one place of a dim to the next, 0 where it stays.
    pub(super) strides: [[usize; RANK_MAX]; N],
    /// Number of dims, at least one.
    pub(super) rank: usize,
}

impl<const N: usize> Walk<N> {
    /// Of a result and the operands that broadcast to it.
    pub(super) fn new(shape: &Shape, operands: [&Shape; N]) -> Self {
        let mut walk = Self { dims: [1; RANK_MAX], strides: [[0; RANK_MAX]; N], rank: 0 };
        let own = operands.map(|operand| strides_in(shape, operand));
        for (index, dim) in shape.dims().iter().enumerate().filter(|(_, dim)| **dim != 1) {
            let stride = |operand: usize| own[operand][index];
            // A dim joins the one before it when each operand steps on evenly, or not at all.
            let joins = walk.rank > 0
                && (0..N)
                    .all(|operand| walk.strides[operand][walk.rank - 1] == stride(operand) * dim);
            let at = if joins { walk.rank - 1 } else { walk.rank };
            walk.dims[at] = if joins { walk.dims[at] * dim } else { *dim };
            for operand in 0..N {
                walk.strides[operand][at] = stride(operand);
            }
            walk.rank = at + 1;
        }
        walk.rank = walk.rank.max(1);
        walk
    }

    /// Calls `of` for each row of the result, with the place of its first element in each operand;
    /// gives the strides within a row.
    #[inline(always)]
    pub(super) fn rows<T>(&self, out: &mut [T], of: impl FnMut(&mut [T], [usize; N], [usize; N])) {
        self.rows_from(0, out, of);
    }

    /// Elements of a row.
    fn row(&self) -> usize {
        self.dims[self.rank - 1].max(1)
    }

    /// Indices of an element, and where it is in each operand.
    pub(super) fn place(&self, element: usize) -> ([usize; RANK_MAX], [usize; N]) {
        let (mut index, mut at, mut rest) = ([0; RANK_MAX], [0; N], element);
        for dim in (0..self.rank).rev() {
            index[dim] = rest % self.dims[dim].max(1);
            rest /= self.dims[dim].max(1);
            for (at, strides) in at.iter_mut().zip(&self.strides) {
                *at += index[dim] * strides[dim];
            }
        }
        (index, at)
    }

    /// The same for the rows from an element on, which begins a row or lies in the only one.
    #[inline(always)]
    fn rows_from<T>(
        &self,
        first: usize,
        out: &mut [T],
        mut of: impl FnMut(&mut [T], [usize; N], [usize; N]),
    ) {
        let last = self.rank - 1;
        let strides = std::array::from_fn(|operand| self.strides[operand][last]);
        let (mut index, mut at) = self.place(first);
        // A part of the only row is a row.
        for row in out.chunks_exact_mut(self.dims[last].min(out.len()).max(1)) {
            of(row, at, strides);
            self.step(&mut index, &mut at);
        }
    }

    /// Calls `of` for blocks of the rows of a result of so many elements: with the place of the
    /// first one, their number, their places in each operand, and the strides between them.
    pub(super) fn blocks(
        &self,
        elements: usize,
        of: &mut dyn FnMut(usize, usize, [usize; N], [usize; N]),
    ) {
        let last = self.rank - 1;
        let strides: [usize; N] = std::array::from_fn(|operand| self.strides[operand][last]);
        let mut index = [0; RANK_MAX];
        let mut at = [0; N];
        for first in (0..elements).step_by(self.dims[last].max(1)) {
            for begin in (0..self.dims[last]).step_by(BLOCK) {
                let count = BLOCK.min(self.dims[last] - begin);
                let places = std::array::from_fn(|operand| at[operand] + begin * strides[operand]);
                of(first + begin, count, places, strides);
            }
            self.step(&mut index, &mut at);
        }
    }

    /// Goes to the next row.
    fn step(&self, index: &mut [usize; RANK_MAX], at: &mut [usize; N]) {
        for dim in (0..self.rank - 1).rev() {
            index[dim] += 1;
            for (at, strides) in at.iter_mut().zip(&self.strides) {
                *at += strides[dim];
            }
            if index[dim] < self.dims[dim] {
                return;
            }
            index[dim] = 0;
            for (at, strides) in at.iter_mut().zip(&self.strides) {
                *at -= strides[dim] * self.dims[dim];
            }
        }
    }
}

impl Walk<2> {
    /// Makes the elements from `first` on, which begins a row or lies in the only one.
    fn run<A: Plain, B: Plain, T: Plain>(
        &self,
        a: &[A],
        b: &[B],
        first: usize,
        out: &mut [T],
        of: impl Fn(A, B) -> T + Copy,
    ) {
        if let Some(rows) = self.repeated() {
            return self.repeat(rows, (a, b), (first, out), of);
        }
        self.rows_from(first, out, |row, at, strides| {
            let length = row.len();
            match strides {
                [1, 1] => {
                    let pairs = a[at[0]..][..length].iter().zip(&b[at[1]..][..length]);
                    row.iter_mut().zip(pairs).for_each(|(to, (x, y))| *to = of(*x, *y));
                }
                [1, 0] => {
                    let y = b[at[1]];
                    let xs = &a[at[0]..][..length];
                    row.iter_mut().zip(xs).for_each(|(to, x)| *to = of(*x, y));
                }
                [0, 1] => {
                    let x = a[at[0]];
                    let ys = &b[at[1]..][..length];
                    row.iter_mut().zip(ys).for_each(|(to, y)| *to = of(x, *y));
                }
                _ => row.fill(of(a[at[0]], b[at[1]])),
            }
        });
    }
}

impl Walk<2> {
    /// Rows that the second operand's row is repeated for, when rows are as long as a vector: a
    /// factor for each map, of maps in blocks.
    fn repeated(&self) -> Option<usize> {
        let before = self.rank.checked_sub(2)?;
        let of =
            |operand: usize| [self.strides[operand][before], self.strides[operand][before + 1]];
        let fits = self.dims[before + 1] == LANES && of(0) == [LANES, 1] && of(1) == [0, 1];
        fits.then_some(self.dims[before])
    }

    /// The elements from `first` on, which begins a row, with one vector for some rows.
    fn repeat<A: Plain, B: Plain, T: Plain>(
        &self,
        rows: usize,
        (a, b): (&[A], &[B]),
        (first, out): (usize, &mut [T]),
        of: impl Fn(A, B) -> T + Copy,
    ) {
        let (mut rest, _) = out.as_chunks_mut::<LANES>();
        let mut row = first / LANES;
        while !rest.is_empty() {
            let (own, behind) = rest.split_at_mut((rows - row % rows).min(rest.len()));
            let (_, at) = self.place(row * LANES);
            let (Some(ys), (xs, _)) = (b[at[1]..].first_chunk(), a[at[0]..].as_chunks()) else {
                return;
            };
            let ys: [B; LANES] = *ys;
            for (to, x) in own.iter_mut().zip(xs) {
                let x: &[A; LANES] = x;
                to.iter_mut().zip(x.iter().zip(&ys)).for_each(|(to, (x, y))| *to = of(*x, *y));
            }
            row += own.len();
            rest = behind;
        }
    }
}

/// Strides of an operand along the dims of the result; 0 where it repeats.
fn strides_in(result: &Shape, operand: &Shape) -> [usize; RANK_MAX] {
    let mut strides = [0; RANK_MAX];
    let own = operand.strides();
    let offset = result.rank() - operand.rank();
    for (index, dim) in operand.dims().iter().enumerate() {
        strides[offset + index] = if *dim == 1 { 0 } else { own[index] };
    }
    strides
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(dims: &[usize]) -> Shape {
        Shape::new(dims).unwrap()
    }

    fn sum(result: &Shape, a: &Shape, b: &Shape) -> Vec<i64> {
        let count = |shape: &Shape| i64::try_from(shape.elements()).unwrap();
        let left: Vec<i64> = (0..count(a)).map(|x| 1000 * x).collect();
        let right: Vec<i64> = (0..count(b)).collect();
        let mut out = vec![-1; result.elements()];
        Walk::new(result, [a, b]).run(&left, &right, 0, &mut out, |x, y| x + y);
        out
    }

    /// The same by the definition: every index on its own.
    fn expected(result: &Shape, a: &Shape, b: &Shape) -> Vec<i64> {
        let strides = result.strides();
        (0..result.elements())
            .map(|flat| {
                let of = |operand: &Shape| {
                    let own = strides_in(result, operand);
                    let index = |dim: usize| flat / strides[dim] % result.dims()[dim];
                    let at: usize = (0..result.rank()).map(|dim| index(dim) * own[dim]).sum();
                    i64::try_from(at).unwrap()
                };
                1000 * of(a) + of(b)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn the_walk_is_the_definition(dims in prop::collection::vec((1usize..4, 0..4u8), 0..6)) {
            let side = |bit: u8| {
                let dims: Vec<usize> = dims
                    .iter()
                    .map(|(dim, ones)| if ones >> bit & 1 == 1 { 1 } else { *dim })
                    .collect();
                shape(&dims)
            };
            let (a, b) = (side(0), side(1));
            let result = a.broadcast(&b).unwrap();
            prop_assert_eq!(sum(&result, &a, &b), expected(&result, &a, &b));
        }
    }

    #[test]
    fn a_vector_for_many_rows() {
        for (dims, other) in [
            (&[2, 3, 5, 16][..], &[2, 3, 1, 16][..]),
            (&[2, 3, 5, 16], &[1, 16]),
            (&[7, 16], &[16]),
            (&[4, 1, 3, 2, 16], &[4, 1, 1, 1, 16]),
            (&[3, 2, 16], &[3, 1, 1]),
        ] {
            let (a, b) = (shape(dims), shape(other));
            assert_eq!(sum(&a, &a, &b), expected(&a, &a, &b), "{dims:?} {other:?}");
            // Parts that begin at any row.
            let walk = Walk::new(&a, [&a, &b]);
            let (xs, ys): (Vec<i64>, Vec<i64>) =
                ((0..i64::try_from(a.elements()).unwrap()).collect(), (0..999).collect());
            let whole = |first: usize, count: usize| {
                let mut out = vec![0i64; count];
                walk.run(&xs, &ys, first, &mut out, |x, y| x * 1000 + y);
                out
            };
            let (all, row) = (whole(0, a.elements()), walk.row());
            for first in (0..a.elements()).step_by(row) {
                let count = (3 * row).min(a.elements() - first);
                assert_eq!(whole(first, count), all[first..first + count], "from {first}");
            }
        }
    }

    #[test]
    fn joined_dims_make_long_rows() {
        let walk = Walk::new(&shape(&[2, 3, 4, 5]), [&shape(&[2, 3, 4, 5]), &shape(&[3, 1, 1])]);
        assert_eq!((walk.rank, &walk.dims[..3]), (3, &[2, 3, 20][..]));
        let whole = Walk::new(&shape(&[2, 3]), [&shape(&[2, 3]), &shape(&[2, 3])]);
        assert_eq!((whole.rank, whole.dims[0]), (1, 6));
    }

    #[test]
    fn the_old_rule_puts_the_second_at_an_axis() {
        let (a, b) = (shape(&[2, 3, 4, 5]), shape(&[3, 4]));
        let info = |shape| TensorInfo::new(crate::DataType::FLOAT, shape);
        let infer = |rule: Broadcast| rule.infer(&[info(a), info(b)]);
        assert_eq!(Broadcast::At(1).second(&a, &b), Some(shape(&[1, 3, 4, 1])));
        assert_eq!(infer(Broadcast::At(1)), Ok(info(a)));
        assert!(infer(Broadcast::At(0)).is_err());
        assert!(infer(Broadcast::At(3)).is_err(), "sticks out");
        let error = infer(Broadcast::Equal).unwrap_err().to_string();
        assert!(error.contains("`broadcast` = 0"), "{error}");
    }
}
