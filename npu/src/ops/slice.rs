//! Slice: a part of a tensor along each axis, with steps, also backwards.
//!
//! Starts, ends, axes and steps are attributes (opset 9 and before) or inputs whose values are
//! known when the model is compiled; a program holds, for each dim, the first index, the step and
//! the length that they mean.

use crate::ops::types;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, axis, before};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Slice",
    code: 14,
    versions: &[1, 10, 11, 13],
    attributes: &[before("starts", 10), before("ends", 10), before("axes", 10)],
    inputs: (1, 5),
    outputs: 1,
    operands: (1, 1),
    types: types::ALL,
    refused: "`starts`, `ends`, `axes`, `steps` that are computed from data",
    import,
    decode,
    ..OpEntry::MOVES
};

/// What is taken along one dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First index.
    pub start: usize,
    /// Distance to the next one; not 0.
    pub step: i64,
    /// How many.
    pub count: usize,
}

/// A part of a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    ranges: [Range; RANK_MAX],
    rank: usize,
}

const WHOLE: Range = Range { start: 0, step: 1, count: 0 };

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let dims = node.input(0)?.info.shape;
    let (starts, ends, axes, steps) = if node.opset < 10 {
        if node.inputs.len() > 1 {
            let supported = "1 before opset 10: the rest are attributes".to_owned();
            let found = node.inputs.len();
            return Err(OpError::Count { what: "inputs", found, supported });
        }
        let list = |name| {
            let absent = || OpError::attribute(name, "is not given", "a list of numbers");
            node.ints(name)?.ok_or_else(absent).map(<[i64]>::to_vec)
        };
        (list("starts")?, list("ends")?, node.ints("axes")?.map(<[i64]>::to_vec), None)
    } else {
        let optional =
            |index, name| node.has(index).then(|| node.integers(index, name)).transpose();
        let (starts, ends) = (node.integers(1, "starts")?, node.integers(2, "ends")?);
        (starts, ends, optional(3, "axes")?, optional(4, "steps")?)
    };
    let count = i64::try_from(starts.len()).unwrap_or(i64::MAX);
    let axes = axes.unwrap_or_else(|| (0..count).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    let lengths = [starts.len(), ends.len(), axes.len(), steps.len()];
    if lengths.iter().any(|length| *length != lengths[0]) {
        let what = format!("starts, ends, axes and steps are {lengths:?} long; expected the same");
        return Err(OpError::shape(what));
    }
    let mut slice = Slice { ranges: [WHOLE; RANK_MAX], rank: dims.rank() };
    for (range, dim) in slice.ranges.iter_mut().zip(dims.dims()) {
        range.count = *dim;
    }
    let mut seen = [false; RANK_MAX];
    for (index, given) in axes.iter().enumerate() {
        let at = axis("axes", *given, dims.rank())?;
        if std::mem::replace(&mut seen[at], true) {
            return Err(OpError::attribute("axes", format!("{axes:?}"), "each axis once"));
        }
        let (start, end, step) = (starts[index], ends[index], steps[index]);
        slice.ranges[at] = resolve(dims.dims()[at], start, end, step)?;
    }
    Ok(Imported::first(slice))
}

/// What start, end and step mean for a dim: negative ones count from the end, all are clamped.
fn resolve(dim: usize, start: i64, end: i64, step: i64) -> Result<Range, OpError> {
    if step == 0 {
        return Err(OpError::attribute("steps", 0, "a step that is not 0"));
    }
    let length = i64::try_from(dim).unwrap_or(i64::MAX);
    let from_end = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let start = from_end(start).clamp(low.max(0), high.max(0));
    // An end before the first element, going backwards, is -1 after the sum.
    let end = from_end(end).clamp(low, high.max(low));
    let distance = if step > 0 { end - start } else { start - end };
    let count = if distance <= 0 || dim == 0 {
        0
    } else {
        usize::try_from(distance.unsigned_abs().div_ceil(step.unsigned_abs())).unwrap_or(0)
    };
    let start = if count == 0 { 0 } else { usize::try_from(start).unwrap_or(0) };
    // A step beyond the dim is never taken; a program holds steps that stay inside it.
    let step = if count <= 1 { 1 } else { step };
    Ok(Range { start, step, count })
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let rank = from.size()?;
    let mut slice = Slice { ranges: [WHOLE; RANK_MAX], rank };
    let ranges = slice.ranges.get_mut(..rank);
    let ranges = ranges.ok_or_else(|| OpError::params(format!("{rank} dims")))?;
    for range in ranges {
        *range = Range { start: from.size()?, step: from.i64()?, count: from.size()? };
    }
    Ok(Box::new(slice))
}

impl Range {
    /// Whether every index lies below `dim`.
    fn fits(&self, dim: usize) -> bool {
        let Some(last) = self.count.checked_sub(1) else { return true };
        let inside =
            |at: Option<i64>| at.and_then(|at| usize::try_from(at).ok()).is_some_and(|at| at < dim);
        let start = i64::try_from(self.start).ok();
        let way = i64::try_from(last).ok().and_then(|last| last.checked_mul(self.step));
        let end = start.zip(way).and_then(|(start, way)| start.checked_add(way));
        self.step != 0 && inside(start) && inside(end)
    }
}

impl Slice {
    /// What is taken along each dim.
    #[must_use]
    pub fn ranges(&self) -> &[Range] {
        &self.ranges[..self.rank]
    }
}

impl Op for Slice {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.rank);
        for range in self.ranges() {
            into.size(range.start);
            into.i64(range.step);
            into.size(range.count);
        }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        let fits = shape.rank() == self.rank
            && self.ranges().iter().zip(shape.dims()).all(|(range, dim)| range.fits(*dim));
        if !fits {
            return Err(OpError::shape(format!("{:?} is no part of {shape}", self.ranges())));
        }
        let mut dims = [0; RANK_MAX];
        for (to, range) in dims.iter_mut().zip(self.ranges()) {
            *to = range.count;
        }
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims[..self.rank])?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        let (from, strides) = (inputs.bytes(0), inputs.info(0).shape.strides());
        // Dims at the end that are taken whole are copied together.
        let dims = inputs.dims(0);
        let whole =
            |dim: &usize| self.ranges[*dim] == (Range { start: 0, step: 1, count: dims[*dim] });
        let tail = (0..self.rank).rev().take_while(whole).count();
        let walked = self.rank - tail;
        let run = dims[walked..].iter().product::<usize>() * size;
        let mut index = [0usize; RANK_MAX];
        for to in output.bytes.chunks_exact_mut(run) {
            let mut at = 0usize;
            for dim in 0..walked {
                let range = &self.ranges[dim];
                let way = range.step.unsigned_abs() * index[dim] as u64;
                let way = usize::try_from(way).map_err(|_| Fault::Memory)?;
                let place = if range.step > 0 { range.start + way } else { range.start - way };
                at += place * strides[dim];
            }
            to.copy_from_slice(&from[at * size..][..run]);
            for dim in (0..walked).rev() {
                index[dim] += 1;
                if index[dim] < self.ranges[dim].count {
                    break;
                }
                index[dim] = 0;
            }
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ops::testing::{Case, float, int64, ints};

    fn cut(dims: &[usize], lists: [&[i64]; 4]) -> Case {
        let count: usize = dims.iter().product();
        let values: Vec<i64> = (0..count).map(|x| i64::try_from(x).unwrap()).collect();
        let case = Case::new(&ENTRY, 13).input(int64(dims, &values));
        lists.iter().fold(case, |case, list| case.input(int64(&[list.len()], list)))
    }

    #[test]
    fn steps_forwards_and_backwards() {
        assert_eq!(cut(&[5], [&[1], &[4], &[0], &[2]]).run(), int64(&[2], &[1, 3]));
        assert_eq!(cut(&[5], [&[-1], &[-6], &[0], &[-1]]).run(), int64(&[5], &[4, 3, 2, 1, 0]));
        assert_eq!(cut(&[5], [&[4], &[0], &[-1], &[-3]]).run(), int64(&[2], &[4, 1]));
        assert_eq!(cut(&[5], [&[9], &[i64::MIN], &[0], &[-1]]).run().info.shape.elements(), 5);
        assert_eq!(cut(&[5], [&[0], &[i64::MAX], &[0], &[i64::MAX]]).run(), int64(&[1], &[0]));
        assert_eq!(cut(&[5], [&[3], &[1], &[0], &[1]]).run(), int64(&[0], &[]));
        assert_eq!(cut(&[0], [&[0], &[1], &[0], &[1]]).run(), int64(&[0], &[]));
        assert_eq!(cut(&[0], [&[0], &[1], &[0], &[-1]]).run(), int64(&[0], &[]));
    }

    #[test]
    fn some_axes_in_any_order() {
        let part = cut(&[2, 3, 2], [&[1, 0], &[3, 1], &[-2, 0], &[1, 1]]).run();
        assert_eq!(part, int64(&[1, 2, 2], &[2, 3, 4, 5]));
    }

    #[test]
    fn axes_and_steps_may_be_left_out() {
        let case = || Case::new(&ENTRY, 10).input(ints(&[2, 2], &[1, 2, 3, 4]));
        let plain = case().input(int64(&[2], &[1, 0])).input(int64(&[2], &[2, 1]));
        assert_eq!(plain.run(), ints(&[1, 1], &[3]));
        let stepped = case().input(ints(&[1], &[1])).input(ints(&[1], &[-9])).absent();
        assert_eq!(stepped.input(ints(&[1], &[-1])).run(), ints(&[2, 2], &[3, 4, 1, 2]));
    }

    #[test]
    fn the_attributes_of_opset_1() {
        let case = Case::new(&ENTRY, 1).ints("starts", &[0]).ints("ends", &[-1]).ints("axes", &[1]);
        let case = case.input(float(&[2, 2], &[1.0, 2.0, 3.0, 4.0]));
        assert_eq!(case.run(), float(&[2, 1], &[1.0, 3.0]));
    }

    #[test]
    fn what_is_refused() {
        assert!(cut(&[5], [&[0], &[1], &[0], &[0]]).refused().contains("`steps`: 0"));
        assert!(cut(&[5], [&[0], &[1], &[1], &[1]]).refused().contains("attribute `axes`: 1"));
        assert!(cut(&[5], [&[0], &[1, 2], &[0], &[1]]).refused().contains("[1, 2, 1, 1] long"));
        let twice = cut(&[5, 5], [&[0, 0], &[1, 1], &[0, -2], &[1, 1]]);
        assert!(twice.refused().contains("each axis once"));
        let unknown = cut(&[5], [&[0], &[1], &[0], &[1]]).data();
        assert!(unknown.refused().contains("input 1 `starts` is computed from data"));
    }

    #[test]
    fn a_range_that_leaves_its_dim_is_refused() {
        let fits = |start, step, count| Range { start, step, count }.fits(5);
        assert!(fits(0, 1, 5) && fits(4, -4, 2) && fits(7, 1, 0));
        assert!(!fits(0, 1, 6) && !fits(4, -1, 6) && !fits(5, 1, 1) && !fits(0, 0, 2));
        assert!(!fits(1, i64::MAX, 3) && !fits(1, i64::MIN, 2) && !fits(usize::MAX, 1, 1));
    }

    proptest! {
        #[test]
        fn a_slice_is_the_definition(
            dim in 0usize..7,
            start in -9i64..9,
            end in -9i64..9,
            step in prop::sample::select(vec![-3i64, -2, -1, 1, 2, 3]),
        ) {
            let length = i64::try_from(dim).unwrap();
            // As the definition has it: Python's rule, but no start lies before the first element.
            let place = |at: i64, low: i64, high: i64| {
                let at = if at < 0 { at + length } else { at };
                at.max(low).min(high)
            };
            let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
            let (mut at, stop) = (place(start, 0, high), place(end, low, high));
            let mut expected = Vec::new();
            while (step > 0 && at < stop) || (step < 0 && at > stop) {
                expected.push(at);
                at += step;
            }
            let found = cut(&[dim], [&[start], &[end], &[0], &[step]]).run();
            prop_assert_eq!(found, int64(&[expected.len()], &expected));
        }
    }
}
