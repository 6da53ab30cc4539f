//! Reductions: one number of all elements along some axes.

use crate::DataType;
use crate::element::{Element, with_element};
use crate::ops::lanes::{Lane, Lanes};
use crate::ops::types::{self, Types};
use crate::ops::{AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, axis, before, since};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// Attributes of those whose axes are an input since opset 18.
const ATTRIBUTES: &[AttributeSpec] =
    &[before("axes", 18), always("keepdims"), since("noop_with_empty_axes", 18)];
/// And of the one for which it was 13.
const OF_SUM: &[AttributeSpec] =
    &[before("axes", 13), always("keepdims"), since("noop_with_empty_axes", 13)];

/// Types of a highest or lowest element.
const ORDERED: Types = &types::ordered(12, 13, 20);
/// Types of others.
const NUMBERS: Types = &types::whole(1, 13);

macro_rules! reductions {
    ($($entry:ident $name:literal = $code:literal, $versions:expr, $types:expr, $attributes:expr,
        $kind:ident;)+) => {
        $(#[doc = concat!("The line of ", $name, ".")]
        pub static $entry: OpEntry = OpEntry {
            name: $name,
            code: $code,
            versions: &$versions,
            attributes: $attributes,
            inputs: (1, 2),
            types: $types,
            refused: "`axes` that are computed from data",
            import: |node| Reduce::import(Kind::$kind, node),
            decode: |from| Reduce::decode(Kind::$kind, from),
            ..OpEntry::BASE
        };)+

        #[derive(Clone, Copy, Debug, PartialEq)]
        enum Kind {
            $($kind),+
        }

        impl Kind {
            fn entry(self) -> &'static OpEntry {
                match self {
                    $(Self::$kind => &$entry),+
                }
            }
        }
    };
}
reductions! {
    L1 "ReduceL1" = 91, [1, 11, 13, 18], NUMBERS, ATTRIBUTES, L1;
    L2 "ReduceL2" = 92, [1, 11, 13, 18], NUMBERS, ATTRIBUTES, L2;
    LOG_SUM "ReduceLogSum" = 93, [1, 11, 13, 18, 28], NUMBERS, ATTRIBUTES, LogSum;
    LOG_SUM_EXP "ReduceLogSumExp" = 94, [1, 11, 13, 18, 28], NUMBERS, ATTRIBUTES, LogSumExp;
    MAX "ReduceMax" = 95, [1, 11, 12, 13, 18, 20], ORDERED, ATTRIBUTES, Max;
    MEAN "ReduceMean" = 96, [1, 11, 13, 18], NUMBERS, ATTRIBUTES, Mean;
    MIN "ReduceMin" = 97, [1, 11, 12, 13, 18, 20], ORDERED, ATTRIBUTES, Min;
    PROD "ReduceProd" = 98, [1, 11, 13, 18], NUMBERS, ATTRIBUTES, Prod;
    SUM "ReduceSum" = 99, [1, 11, 13], NUMBERS, OF_SUM, Sum;
    SUM_SQUARE "ReduceSumSquare" = 100, [1, 11, 13, 18], NUMBERS, ATTRIBUTES, SumSquare;
}

/// One number of all along some axes.
#[derive(Clone, Copy, Debug)]
pub struct Reduce {
    kind: Kind,
    axes: Axes,
}

/// Axes that are reduced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axes {
    rank: usize,
    /// One bit an axis.
    reduced: u32,
    /// A dim of 1 stands for each of them in the output.
    keep: bool,
}

impl Axes {
    /// Of a node, which has them as an attribute before the opset `since`.
    fn import(node: &Node<'_>, since: u32) -> Result<Self, OpError> {
        let rank = node.input(0)?.info.shape.rank();
        let given = node.list("axes", since, 1)?.unwrap_or_default();
        let mut reduced = 0;
        for given in &given {
            reduced |= 1 << axis("axes", *given, rank)?;
        }
        if given.is_empty() && !node.flag("noop_with_empty_axes", false)? {
            reduced = (1 << rank) - 1;
        }
        Ok(Self { rank, reduced, keep: node.flag("keepdims", true)? })
    }

    /// One axis.
    pub(super) fn one(axis: usize, rank: usize, keep: bool) -> Self {
        Self { rank, reduced: 1 << axis, keep }
    }

    pub(super) fn encode(self, into: &mut ParamWriter) {
        into.size(self.rank);
        into.u32(self.reduced);
        into.flag(self.keep);
    }

    pub(super) fn decode(from: &mut ParamReader<'_>) -> Result<Self, OpError> {
        let own = Self { rank: from.size()?, reduced: from.u32()?, keep: from.flag()? };
        if own.rank > RANK_MAX || own.reduced >> own.rank != 0 {
            return Err(OpError::params(format!("axes {:#b} of {} dims", own.reduced, own.rank)));
        }
        Ok(own)
    }

    fn has(self, index: usize) -> bool {
        self.reduced >> index & 1 == 1
    }

    pub(super) fn shape(self, shape: &Shape) -> Result<Shape, OpError> {
        if shape.rank() != self.rank {
            return Err(OpError::shape(format!("{shape} has not {} dims", self.rank)));
        }
        let mut dims = Vec::new();
        for (index, dim) in shape.dims().iter().enumerate() {
            match self.has(index) {
                true if self.keep => dims.push(1),
                true => {}
                false => dims.push(*dim),
            }
        }
        Ok(Shape::new(&dims)?)
    }

    pub(super) fn lanes(self, shape: &Shape) -> Lanes {
        Lanes::new(shape, |index| self.has(index))
    }
}

impl Reduce {
    fn import(kind: Kind, node: &Node<'_>) -> Result<Imported, OpError> {
        let since = if kind == Kind::Sum { 13 } else { 18 };
        Ok(Imported::first(Self { kind, axes: Axes::import(node, since)? }))
    }

    fn decode(kind: Kind, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        Ok(Box::new(Self { kind, axes: Axes::decode(from)? }))
    }
}

/// The sum of what `of` makes of each element.
#[inline(always)]
fn sum<T: Element>(lane: &Lane<'_, T>, of: impl Fn(f64) -> f64) -> f64 {
    lane.fold(0.0, |sum, x| sum + of(x.to_f64()))
}

/// The number of a lane, computed with fractions.
#[inline(always)]
fn fraction<T: Element>(kind: Kind, lane: &Lane<'_, T>) -> f64 {
    match kind {
        Kind::L1 => sum(lane, f64::abs),
        Kind::L2 => sum(lane, |x| x * x).sqrt(),
        Kind::LogSum => sum(lane, |x| x).ln(),
        Kind::LogSumExp => {
            let most = lane.fold(f64::NEG_INFINITY, |most, x| most.max(x.to_f64()));
            // Exponentials of what is infinite, or of nothing, need no help.
            let most = if most.is_finite() { most } else { 0.0 };
            most + sum(lane, |x| (x - most).exp()).ln()
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of elements")]
        Kind::Mean => sum(lane, |x| x) / lane.len() as f64,
        Kind::Prod => lane.fold(1.0, |product, x| product * x.to_f64()),
        Kind::SumSquare => sum(lane, |x| x * x),
        Kind::Sum | Kind::Max | Kind::Min => sum(lane, |x| x),
    }
}

/// The number of a lane of whole numbers, where fractions would not be exact.
#[inline(always)]
fn whole<T: Element>(kind: Kind, lane: &Lane<'_, T>) -> Option<T> {
    Some(match kind {
        Kind::L1 => lane.fold(T::ZERO, |sum, x| {
            sum.plus(if x < T::ZERO { T::ZERO.minus(x) } else { x })
        }),
        Kind::Sum => lane.fold(T::ZERO, T::plus),
        Kind::Prod => lane.fold(T::ONE, T::times),
        Kind::SumSquare => lane.fold(T::ZERO, |sum, x| sum.plus(x.times(x))),
        Kind::Mean => {
            let count = T::of_i64(i64::try_from(lane.len()).unwrap_or(i64::MAX));
            lane.fold(T::ZERO, T::plus).over(count)
        }
        _ => return None,
    })
}

fn compute<T: Element>(
    kind: Kind,
    lanes: &Lanes,
    inputs: &dyn Inputs,
    output: &mut Output<'_>,
) -> Result<(), Fault> {
    let from = inputs.elements::<T>(0)?;
    let exact = !types::is_float(T::TYPE);
    let to = output.elements::<T>()?;
    match kind {
        // A NaN stays one.
        Kind::Max => lanes.each(from, to, |lane| {
            lane.fold(T::LOWEST, |most, x| if most > x || no_number(most) { most } else { x })
        }),
        Kind::Min => lanes.each(from, to, |lane| {
            lane.fold(T::HIGHEST, |least, x| if least < x || no_number(least) { least } else { x })
        }),
        _ => lanes.each(from, to, |lane| {
            let own = if exact { whole(kind, &lane) } else { None };
            own.unwrap_or_else(|| T::of_f64(fraction(kind, &lane)))
        }),
    }
    Ok(())
}

/// Whether an element is a NaN.
#[inline(always)]
pub(super) fn no_number<T: Element>(x: T) -> bool {
    x.partial_cmp(&x).is_none()
}

impl Op for Reduce {
    fn entry(&self) -> &'static OpEntry {
        self.kind.entry()
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.axes.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(TensorInfo::new(inputs[0].dtype, self.axes.shape(&inputs[0].shape)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let lanes = self.axes.lanes(&inputs.info(0).shape);
        let dtype = output.info.dtype;
        if dtype == DataType::BOOL {
            let (from, to) = (inputs.elements::<u8>(0)?, output.elements::<u8>()?);
            let all = self.kind == Kind::Min;
            lanes.each(from, to, |lane| {
                let any = |found: bool, x: u8| if all { found && x != 0 } else { found || x != 0 };
                u8::from(lane.fold(all, any))
            });
            return Ok(());
        }
        with_element!(dtype, T => compute::<T>(self.kind, &lanes, inputs, output))
    }

    fn flops(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        inputs[0].shape.elements() as u64
    }
}
