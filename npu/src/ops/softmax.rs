//! Softmax, LogSoftmax and Hardmax: shares of a sum of exponentials, their logarithms, or a one
//! for the greatest. From opset 13 on along one axis; before, over all dims from the axis on, taken
//! together.

use crate::DataType;
use crate::cast::elements_mut;
use crate::element::Real;
use crate::isa::{self, LANES, Routine, Simd};
use crate::numbers::NumbersMut;
use crate::ops::movement;
use crate::ops::{Halves, Imported, Node, Op, OpEntry, OpError, always, axis, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::RANK_MAX;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

const fn entry(
    name: &'static str,
    code: u16,
    import: fn(&Node<'_>) -> Result<Imported, OpError>,
    decode: fn(&mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError>,
) -> OpEntry {
    let (versions, attributes, types) = (&[1, 11, 13], ATTRIBUTES, TYPES);
    OpEntry { name, code, versions, attributes, types, import, decode, ..OpEntry::BASE }
}

const ATTRIBUTES: &[crate::ops::AttributeSpec] = &[always("axis")];
const TYPES: types::Types = &types::floats(13);

/// The line of Softmax.
pub static ENTRY: OpEntry =
    entry("Softmax", 15, |node| import(Kind::Soft, node), |from| decode(Kind::Soft, from));

/// The line of LogSoftmax.
pub static LOG: OpEntry =
    entry("LogSoftmax", 119, |node| import(Kind::Log, node), |from| decode(Kind::Log, from));

/// The line of Hardmax.
pub static HARD: OpEntry = OpEntry {
    halves: Halves::Rounded,
    ..entry("Hardmax", 120, |node| import(Kind::Hard, node), |from| decode(Kind::Hard, from))
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Soft,
    Log,
    Hard,
}

/// One of the three over the dims `from` to `to`.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    kind: Kind,
    /// First dim of the sum.
    from: usize,
    /// First dim after it.
    to: usize,
}

fn import(kind: Kind, node: &Node<'_>) -> Result<Imported, OpError> {
    let rank = node.input(0)?.info.shape.rank();
    let default = if node.opset < 13 { 1 } else { -1 };
    let given = node.int("axis")?.unwrap_or(default);
    let end = i64::try_from(rank).unwrap_or(i64::MAX);
    if node.opset < 13 && given == end {
        // Each element on its own, as the old definition has it.
        return Ok(Imported::first(Softmax { kind, from: rank, to: rank }));
    }
    let from = axis("axis", given, rank)?;
    let to = if node.opset < 13 { rank } else { from + 1 };
    Ok(Imported::first(Softmax { kind, from, to }))
}

fn decode(kind: Kind, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let [from, to] = from.sizes()?;
    if from > to || to > RANK_MAX {
        return Err(OpError::params(format!("dims {from} to {to}; at most {RANK_MAX} exist")));
    }
    Ok(Box::new(Softmax { kind, from, to }))
}

impl Softmax {
    /// Whether it is the one of shares, and its sum is over the last dim of so many.
    #[must_use]
    pub fn is_over_last_dim(&self, rank: usize) -> bool {
        matches!(self.kind, Kind::Soft) && self.from + 1 == rank && self.to == rank
    }

    /// One lane of elements, each `stride` behind the one before.
    fn lane<R: Real>(&self, values: &mut [R], stride: usize) {
        let places = (0..values.len()).step_by(stride);
        // The greatest is taken off first, so that no exponential overflows.
        let greatest = places
            .clone()
            .fold(R::LOWEST, |max, at| if values[at] > max { values[at] } else { max });
        if self.kind == Kind::Hard {
            let first = places.clone().find(|at| values[*at] == greatest);
            places.for_each(|at| values[at] = if Some(at) == first { R::ONE } else { R::ZERO });
            return;
        }
        let mut sum = R::ZERO;
        for at in places.clone() {
            let x = values[at] - greatest;
            let share = x.exp();
            sum = sum + share;
            values[at] = if self.kind == Kind::Soft { share } else { x };
        }
        let log = sum.ln();
        places.for_each(|at| {
            let x = values[at];
            values[at] = if self.kind == Kind::Soft { x / sum } else { x - log };
        });
    }

    /// Elements of a lane, and their distance.
    fn parts(&self, dims: &[usize]) -> (usize, usize) {
        (dims[self.from..self.to].iter().product(), dims[self.to..].iter().product())
    }

    fn floats(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (count, inner) = self.parts(inputs.dims(0));
        if inner == 1 && matches!(self.kind, Kind::Soft) {
            let lines = output.elements::<f32>()?.chunks_exact_mut(count);
            for (to, from) in lines.zip(inputs.elements::<f32>(0)?.chunks_exact(count)) {
                isa::run(Line { from, to });
            }
            return Ok(());
        }
        movement::copy(inputs, output)?;
        for block in output.elements::<f32>()?.chunks_exact_mut(count * inner) {
            for lane in 0..inner {
                self.lane(&mut block[lane..], inner);
            }
        }
        Ok(())
    }

    /// Of any type: each lane on its own.
    fn compute(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (count, inner) = self.parts(inputs.dims(0));
        let (from, elements) = (inputs.numbers::<f64>(0)?, inputs.info(0).shape.elements());
        let lane = elements_mut::<f64>(output.scratch).ok_or(Fault::Memory)?;
        let lane = lane.get_mut(..count).ok_or(Fault::Memory)?;
        let mut to = NumbersMut::<f64>::new(output.info.dtype, output.bytes)?;
        for own in 0..elements / count {
            let first = own / inner * inner * count + own % inner;
            from.read(first, inner, lane);
            self.lane(lane, 1);
            to.write_every(first, inner, lane);
        }
        Ok(())
    }
}

impl Op for Softmax {
    fn code(&self) -> u16 {
        match self.kind {
            Kind::Soft => const { ENTRY.code },
            Kind::Log => const { LOG.code },
            Kind::Hard => const { HARD.code },
        }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.sizes(&[self.from, self.to]);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        if self.to > inputs[0].shape.rank() {
            let (from, to, shape) = (self.from, self.to, inputs[0].shape);
            return Err(OpError::shape(format!("dims {from} to {to} of {shape}")));
        }
        Ok(inputs[0])
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let (count, _) = self.parts(inputs[0].shape.dims());
        if inputs[0].dtype == DataType::FLOAT { 0 } else { count.saturating_mul(8) }
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        match output.info.dtype {
            DataType::FLOAT => self.floats(inputs, output),
            _ => self.compute(inputs, output),
        }
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        4 * output.shape.elements() as u64
    }
}

/// The exponential of x and this.
#[derive(Clone, Copy)]
struct Shifted(f32);

impl isa::Function for Shifted {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, x: S::V) -> S::V {
        isa::exp(simd, simd.add(x, simd.splat(self.0)))
    }
}

/// A sum over all of it.
struct Line<'a> {
    from: &'a [f32],
    to: &'a mut [f32],
}

impl Routine for Line<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (vectors, rest) = self.from.as_chunks::<LANES>();
        let mut greatest = simd.splat(f32::NEG_INFINITY);
        for from in vectors {
            greatest = simd.max(simd.load(from), greatest);
        }
        let mut lanes = [f32::NEG_INFINITY; 2 * LANES];
        let (whole, part) = lanes.as_chunks_mut::<LANES>().0.split_at_mut(1);
        simd.store(greatest, &mut whole[0]);
        part[0][..rest.len()].copy_from_slice(rest);
        let greatest = lanes.iter().fold(f32::NEG_INFINITY, |max, x| max.max(*x));
        isa::map(simd, self.from, self.to, Shifted(-greatest));
        let (vectors, rest) = self.to.as_chunks_mut::<LANES>();
        let mut sum = simd.splat(0.0);
        for to in &*vectors {
            sum = simd.add(sum, simd.load(to));
        }
        let part = simd.splat(1.0 / (simd.sum(sum) + rest.iter().sum::<f32>()));
        for to in vectors {
            simd.store(simd.mul(simd.load(to), part), to);
        }
        simd.store_part(simd.mul(simd.load_part(rest), part), rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::ops::testing::{Case, assert_close, float, noise};

    #[test]
    fn every_length_on_every_isa() {
        for (count, isa) in (1..50).flat_map(|count| Isa::ALL.map(|isa| (count, isa))) {
            let x: Vec<f32> = noise(count, 3).iter().map(|x| x * 30.0).collect();
            let whole: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
            #[expect(clippy::cast_possible_truncation, reason = "as the op has it")]
            let expected = x.iter().map(|x| (f64::from(*x).exp() / whole) as f32);
            let expected = float(&[1, count], &expected.collect::<Vec<f32>>());
            let case = Case::new(&ENTRY, 13).input(float(&[1, count], &x));
            assert_close(&isa::at_most(isa, || case.run()), &expected, 1e-6);
        }
        let nan = Case::new(&ENTRY, 13).input(float(&[1, 2], &[f32::NAN, 1.0])).run();
        assert!(nan.elements::<f32>().iter().all(|x| x.is_nan()));
    }

    #[test]
    fn what_is_far_below_the_greatest_has_no_share() {
        let x = [0.0, -87.8, -1e30, f32::NEG_INFINITY, -104.0];
        for (count, isa) in (2..40).flat_map(|count| Isa::ALL.map(|isa| (count, isa))) {
            let x: Vec<f32> = x.into_iter().cycle().take(count).collect();
            let case = Case::new(&ENTRY, 13).input(float(&[1, count], &x));
            let found = isa::at_most(isa, || case.run());
            let far = found.elements::<f32>().iter().zip(&x).filter(|(_, x)| **x < 0.0);
            far.for_each(|(share, x)| assert_eq!(share.to_bits(), 0, "{isa:?}: {x}, {share:e}"));
        }
    }

    #[test]
    fn along_the_last_axis_since_opset_13() {
        let case = Case::new(&ENTRY, 13).input(float(&[2, 2], &[0.0, 0.0, 1000.0, 0.0]));
        assert_close(&case.run(), &float(&[2, 2], &[0.5, 0.5, 1.0, 0.0]), 1e-6);
    }

    #[test]
    fn along_an_axis_in_between() {
        let case = Case::new(&ENTRY, 13).int("axis", -2);
        let case = case.input(float(&[1, 2, 2], &[0.0, 5.0, 0.0, -5.0]));
        let (high, low) = (0.999_954_6, 0.000_045_397_87);
        assert_close(&case.run(), &float(&[1, 2, 2], &[0.5, high, 0.5, low]), 1e-6);
    }

    #[test]
    fn over_all_dims_from_the_axis_on_before() {
        let input = float(&[1, 2, 2], &[0.0; 4]);
        let whole = Case::new(&ENTRY, 11).input(input.clone());
        assert_close(&whole.run(), &float(&[1, 2, 2], &[0.25; 4]), 1e-6);
        let last = Case::new(&ENTRY, 1).int("axis", 2).input(input.clone());
        assert_close(&last.run(), &float(&[1, 2, 2], &[0.5; 4]), 1e-6);
        let none = Case::new(&ENTRY, 1).int("axis", 3).input(input);
        assert_close(&none.run(), &float(&[1, 2, 2], &[1.0; 4]), 1e-6);
    }

    #[test]
    fn an_axis_that_is_not_there_is_refused() {
        let case = Case::new(&ENTRY, 13).int("axis", 2).input(float(&[1, 2], &[0.0; 2]));
        assert!(case.refused().contains("attribute `axis`: 2; supported: -2 to 2 exclusive"));
    }
}
