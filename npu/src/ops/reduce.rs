//! Reductions: one number of all elements along some axes.

use crate::DataType;
use crate::element::Element;
use crate::numbers::Wide;
use crate::ops::lanes::{Lanes, WideLane};
use crate::ops::types::{self, Types};
use crate::ops::{
    AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, axis, before, since,
};
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
            fn code(self) -> u16 {
                match self {
                    $(Self::$kind => $code),+
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
    /// The same of a tensor whose dim `order[i]` is what was dim `i`, and for each dim of the
    /// result the one of that tensor's result.
    #[must_use]
    pub fn reordered(&self, order: &[usize]) -> Option<(Self, Vec<usize>)> {
        let Axes { rank, keep, .. } = self.axes;
        if order.len() != rank || order.iter().any(|to| *to >= rank) {
            return None;
        }
        let moved = order.iter().enumerate().filter(|(dim, _)| self.axes.has(*dim));
        let reduced = moved.fold(0, |reduced, (_, to)| reduced | 1 << to);
        let axes = Axes { rank, reduced, keep };
        let left = order.iter().filter(|to| keep || !axes.has(**to));
        let place = |to: &usize| (0..*to).filter(|dim| keep || !axes.has(*dim)).count();
        Some((Self { kind: self.kind, axes }, left.map(place).collect()))
    }

    fn import(kind: Kind, node: &Node<'_>) -> Result<Imported, OpError> {
        let since = if kind == Kind::Sum { 13 } else { 18 };
        Ok(Imported::first(Self { kind, axes: Axes::import(node, since)? }))
    }

    fn decode(kind: Kind, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        Ok(Box::new(Self { kind, axes: Axes::decode(from)? }))
    }
}

/// The number of a lane, computed with fractions; of `x` as of any number.
fn fraction<W: Wide>(kind: Kind, count: usize, lane: &WideLane<'_, W>) -> f64 {
    let sum = |of: fn(f64) -> f64| lane.fold(0.0, |sum, x| sum + of(x.to_f64()));
    match kind {
        Kind::L1 => sum(f64::abs),
        Kind::L2 => sum(|x| x * x).sqrt(),
        Kind::LogSum => sum(|x| x).ln(),
        Kind::LogSumExp => {
            let most = lane.fold(f64::NEG_INFINITY, |most, x| most.max(x.to_f64()));
            // Exponentials of what is infinite, or of nothing, need no help.
            let most = if most.is_finite() { most } else { 0.0 };
            most + lane.fold(0.0, |sum, x| sum + (x.to_f64() - most).exp()).ln()
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of elements")]
        Kind::Mean => sum(|x| x) / count as f64,
        Kind::SumSquare => sum(|x| x * x),
        Kind::Prod => lane.fold(1.0, |product, x| product * x.to_f64()),
        Kind::Sum | Kind::Max | Kind::Min => sum(|x| x),
    }
}

/// The number of a lane of whole numbers, where fractions would not be exact.
fn whole(kind: Kind, count: usize, lane: &WideLane<'_, i128>) -> Option<i128> {
    let sum = |of: fn(i128) -> i128| lane.fold(0i128, |sum, x| sum.wrapping_add(of(x)));
    Some(match kind {
        Kind::L1 => sum(i128::abs),
        Kind::Sum => sum(|x| x),
        Kind::Prod => lane.fold(1, |product: i128, x| product.wrapping_mul(x)),
        Kind::SumSquare => sum(|x| x.wrapping_mul(x)),
        Kind::Mean => sum(|x| x).over(i128::from(count as u64)),
        _ => return None,
    })
}

/// The highest or lowest number of a lane. A NaN stays one.
fn extreme<W: Wide>(kind: Kind, dtype: DataType, lane: &WideLane<'_, W>) -> W {
    let (low, high) = W::ends(dtype);
    match kind {
        Kind::Max => lane.fold(low, |most, x| if most > x || no_number(most) { most } else { x }),
        _ => lane.fold(high, |least, x| if least < x || no_number(least) { least } else { x }),
    }
}

impl Reduce {
    fn compute<W: Wide>(
        &self,
        lanes: &Lanes,
        inputs: &dyn Inputs,
        output: &mut Output<'_>,
        of: fn(Kind, usize, &WideLane<'_, W>) -> Option<W>,
    ) -> Result<(), Fault> {
        let dtype = output.info.dtype;
        let mut to = output.numbers::<W>()?;
        lanes.each_wide(inputs.numbers::<W>(0)?, &mut |index, lane| {
            let own = match self.kind {
                Kind::Max | Kind::Min => Some(extreme(self.kind, dtype, &lane)),
                _ => of(self.kind, lanes.count, &lane),
            };
            match own {
                Some(own) => to.set(index, own),
                None => to.set_float(index, fraction(self.kind, lanes.count, &lane)),
            }
        });
        Ok(())
    }

    /// Kinds that models have often, of their type.
    fn floats(
        &self,
        lanes: &Lanes,
        inputs: &dyn Inputs,
        output: &mut Output<'_>,
    ) -> Result<(), Fault> {
        let (from, to) = (inputs.elements::<f32>(0)?, output.elements::<f32>()?);
        #[expect(clippy::cast_precision_loss, reason = "a count of elements")]
        let by = if self.kind == Kind::Mean { lanes.count as f64 } else { 1.0 };
        match self.kind {
            Kind::Max => lanes.each(from, to, |lane| {
                lane.fold(f32::LOWEST, |most, x| if most > x || most.is_nan() { most } else { x })
            }),
            Kind::Min => lanes.each(from, to, |lane| {
                lane.fold(
                    f32::HIGHEST,
                    |least, x| if least < x || least.is_nan() { least } else { x },
                )
            }),
            _ => lanes.each(from, to, |lane| {
                f32::of_f64(lane.fold(0.0, |sum, x| sum + f64::from(x)) / by)
            }),
        }
        Ok(())
    }
}

/// Whether an element is a NaN.
#[inline(always)]
pub(super) fn no_number<T: Element>(x: T) -> bool {
    x.partial_cmp(&x).is_none()
}

impl Op for Reduce {
    fn code(&self) -> u16 {
        self.kind.code()
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.axes.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(TensorInfo::new(inputs[0].dtype, self.axes.shape(&inputs[0].shape)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let lanes = self.axes.lanes(&inputs.info(0).shape);
        let often = matches!(self.kind, Kind::Sum | Kind::Mean | Kind::Max | Kind::Min);
        match output.info.dtype {
            DataType::FLOAT if often => self.floats(&lanes, inputs, output),
            dtype if types::is_float(dtype) => {
                self.compute::<f64>(&lanes, inputs, output, |_, _, _| None)
            }
            _ => self.compute::<i128>(&lanes, inputs, output, whole),
        }
    }

    fn flops(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        inputs[0].shape.elements() as u64
    }
}
