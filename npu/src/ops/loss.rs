//! NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.

use crate::numbers::NumbersMut;
use crate::ops::{AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

const ATTRIBUTES: &[AttributeSpec] = &[always("ignore_index"), always("reduction")];

/// The line of NegativeLogLikelihoodLoss.
pub static LIKELIHOOD: OpEntry = OpEntry {
    name: "NegativeLogLikelihoodLoss",
    code: 128,
    versions: &[12, 13, 22],
    attributes: ATTRIBUTES,
    inputs: (2, 3),
    operands: (2, 3),
    types: &types::floats(22),
    mixed: &[(1, types::INDICES)],
    import: |node| Loss::import(false, node),
    decode: |from| Loss::decode(false, from),
    ..OpEntry::BASE
};

/// The line of SoftmaxCrossEntropyLoss.
pub static CROSS_ENTROPY: OpEntry = OpEntry {
    name: "SoftmaxCrossEntropyLoss",
    code: 129,
    versions: &[12, 13],
    attributes: ATTRIBUTES,
    inputs: (2, 3),
    outputs: 2,
    operands: (2, 3),
    types: &types::floats(13),
    mixed: &[(1, types::INDICES)],
    import: |node| Loss::import(true, node),
    decode: |from| Loss::decode(true, from),
    ..OpEntry::BASE
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reduction {
    None,
    Sum,
    Mean,
}

/// What is lost for each element, or for all. A label outside the classes is the nearest one.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Scores become logarithms of shares first.
    softmax: bool,
    /// Those logarithms are the second output.
    shares: bool,
    reduction: Reduction,
    /// A label that loses nothing.
    ignore: Option<i64>,
}

impl Loss {
    fn import(softmax: bool, node: &Node<'_>) -> Result<Imported, OpError> {
        let reduction = match node.text("reduction")?.unwrap_or("mean") {
            "none" => Reduction::None,
            "sum" => Reduction::Sum,
            "mean" => Reduction::Mean,
            other => return Err(OpError::attribute("reduction", other, "none, sum, mean")),
        };
        let ignore = node.int("ignore_index")?;
        let shares = node.outputs > 1;
        Ok(Imported::all(Self { softmax, shares, reduction, ignore }, node))
    }

    fn decode(softmax: bool, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        let shares = from.flag()? && softmax;
        let reduction = match from.u32()? {
            0 => Reduction::None,
            1 => Reduction::Sum,
            2 => Reduction::Mean,
            other => return Err(OpError::params(format!("reduction {other}"))),
        };
        let (has, label) = (from.flag()?, from.i64()?);
        Ok(Box::new(Self { softmax, shares, reduction, ignore: has.then_some(label) }))
    }

    fn compute(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (x, labels) = (inputs.numbers::<f64>(0)?, inputs.indices(1)?);
        let weights = inputs.optional_numbers::<f64>(2)?;
        let dims = inputs.dims(0);
        let (classes, area) = (dims[1], dims[2..].iter().product::<usize>());
        let at =
            |batch: usize, class: usize, place: usize| (batch * classes + class) * area + place;
        // The logarithm of the sum of exponentials, where that is asked for.
        let log = |batch: usize, place: usize| {
            if !self.softmax {
                return 0.0;
            }
            let scores = (0..classes).map(|class| x.get(at(batch, class, place)));
            let most = scores.clone().fold(f64::NEG_INFINITY, f64::max);
            most + scores.map(|score| (score - most).exp()).sum::<f64>().ln()
        };
        let mut to = NumbersMut::<f64>::new(output.info.dtype, output.bytes)?;
        let (mut sum, mut all) = (0.0, 0.0);
        for flat in 0..labels.len() {
            let (batch, place) = (flat / area, flat % area);
            let (label, class) = (labels.get(flat), labels.at(flat, classes));
            let (mut own, mut weight) = (0.0, 0.0);
            if Some(label) != self.ignore {
                weight = weights.map_or(1.0, |weights| weights.get(class));
                own = weight * (log(batch, place) - x.get(at(batch, class, place)));
            }
            (sum, all) = (sum + own, all + weight);
            if self.reduction == Reduction::None {
                to.set(flat, own);
            }
        }
        match self.reduction {
            Reduction::None => {}
            Reduction::Sum => to.set(0, sum),
            Reduction::Mean => to.set(0, sum / all),
        }
        if let Some(mut to) = output.further_numbers::<f64>(0)? {
            for flat in 0..inputs.info(0).shape.elements() {
                let (batch, place) = (flat / area / classes, flat % area);
                to.set(flat, x.get(flat) - log(batch, place));
            }
        }
        Ok(())
    }
}

impl Op for Loss {
    fn code(&self) -> u16 {
        if self.softmax { const { CROSS_ENTROPY.code } } else { const { LIKELIHOOD.code } }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.shares);
        into.u32(match self.reduction {
            Reduction::None => 0,
            Reduction::Sum => 1,
            Reduction::Mean => 2,
        });
        into.flag(self.ignore.is_some());
        into.i64(self.ignore.unwrap_or(0));
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (x, labels) = (inputs[0].shape, inputs[1].shape);
        let refuse = |what: &str| OpError::shape(format!("scores {x}, labels {labels}: {what}"));
        let [batches, classes, rest @ ..] = x.dims() else { return Err(refuse("no classes")) };
        if labels.dims() != [&[*batches], rest].concat() || *classes == 0 {
            return Err(refuse("not one label for each place"));
        }
        if let Some(weights) = inputs.get(2)
            && weights.shape.dims() != [*classes]
        {
            return Err(refuse(&format!("weights are {}", weights.shape)));
        }
        let shape = if self.reduction == Reduction::None { labels } else { Shape::SCALAR };
        Ok(TensorInfo::new(inputs[0].dtype, shape))
    }

    fn further(&self, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        Ok(if self.shares { vec![inputs[0]] } else { Vec::new() })
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        self.compute(inputs, output)
    }

    fn flops(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        2 * inputs[0].shape.elements() as u64
    }
}
