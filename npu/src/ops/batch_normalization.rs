//! BatchNormalization: (x - mean) / sqrt(variance + epsilon) * scale + bias.
//!
//! Behind a Conv the compiler computes it into the Conv's weights; this kernel is for the rest.
//! Mean and variance are operands, or, since opset 14 in training form, those of the batch.

use crate::DataType;
use crate::element::Element;
use crate::ops::{AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, before, since, types};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "BatchNormalization",
    code: 2,
    versions: &[1, 6, 7, 9, 14, 15],
    attributes: &[
        always("epsilon"),
        always("momentum"),
        since("training_mode", 14),
        before("spatial", 9),
        AttributeSpec { name: "is_test", since: 1, until: 7 },
        before("consumed_inputs", 6),
    ],
    inputs: (5, 5),
    outputs: 3,
    operands: (5, 5),
    types: &[(DataType::FLOAT, 1)],
    // In models, statistics may be of another type than what they are of.
    mixed: &[(1, FLOATS), (2, FLOATS), (3, FLOATS), (4, FLOATS)],
    widened: &types::halves(14),
    refused: "training before opset 14: `is_test` = 0, more than one output",
    import,
    decode: |from| {
        let epsilon = from.f32()?;
        if !epsilon.is_nan() {
            return Ok(Box::new(BatchNormalization { epsilon }));
        }
        // No number of a model: the training form follows.
        Ok(Box::new(Training { epsilon: from.f32()?, momentum: from.f32()? }))
    },
    ..OpEntry::BASE
};

const FLOATS: &[DataType] = &[DataType::FLOAT];

/// (x - mean) / sqrt(variance + epsilon) * scale + bias. Operands: x, scale, bias, mean, variance.
///
/// The last four have one value a feature map, or one value each element of a feature map
/// (`spatial` = 0 in opset 8 and before).
#[derive(Clone, Copy, Debug)]
pub struct BatchNormalization {
    /// Added to the variance.
    pub epsilon: f32,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let training = node.flag("training_mode", false)?;
    if !training && node.outputs > 1 {
        let supported = "1 but in training form since opset 14".to_owned();
        return Err(OpError::Count { what: "outputs", found: node.outputs, supported });
    }
    if node.opset < 7 && !node.flag("is_test", false)? {
        let found = if node.int("is_test")?.is_some() { "0" } else { "0 by default" };
        return Err(OpError::attribute("is_test", found, "1: the model is for inference"));
    }
    // Has a meaning in training only; read so that another kind is refused.
    let momentum = node.float("momentum", 0.9)?;
    let shape = node.input(0)?.info.shape;
    let maps = per_map(&shape);
    let expected = if node.flag("spatial", true)? { maps } else { per_element(&shape) };
    for index in 1..5 {
        let found = node.input(index)?.info.shape;
        if Some(found) != expected {
            let what = format!("input {index} is {found}; expected one value a map of {shape}");
            return Err(OpError::shape(what));
        }
    }
    let epsilon = node.float("epsilon", 1e-5)?;
    if training {
        return Ok(Imported::all(Training { epsilon, momentum }, node));
    }
    Ok(Imported::all(BatchNormalization { epsilon }, node))
}

/// One value a feature map.
fn per_map(shape: &Shape) -> Option<Shape> {
    let maps = match shape.dims() {
        [] => return None,
        [_] => 1,
        [_, maps, ..] => *maps,
    };
    Shape::new(&[maps]).ok()
}

/// One value each element of a feature map.
fn per_element(shape: &Shape) -> Option<Shape> {
    Shape::new(shape.dims().get(1..)?).ok()
}

impl Op for BatchNormalization {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.f32(self.epsilon);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        let own = inputs[1].shape;
        let same = inputs[2..].iter().all(|input| input.shape == own);
        if !same || (Some(own) != per_map(&shape) && Some(own) != per_element(&shape)) {
            let what =
                format!("scale, bias, mean, variance are not all one value a map of {shape}");
            return Err(OpError::shape(what));
        }
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (scale, bias) = (inputs.elements::<f32>(1)?, inputs.elements::<f32>(2)?);
        let (mean, variance) = (inputs.elements::<f32>(3)?, inputs.elements::<f32>(4)?);
        let dims = inputs.dims(0);
        // Elements that share one value; 1 when each element has its own.
        let spread = dims.iter().skip(1).product::<usize>() / scale.len().max(1);
        let to = output.elements::<f32>()?;
        to.copy_from_slice(inputs.elements(0)?);
        for (index, run) in to.chunks_exact_mut(spread.max(1)).enumerate() {
            let at = index % scale.len();
            let factor = scale[at] / (variance[at] + self.epsilon).sqrt();
            let offset = bias[at] - mean[at] * factor;
            run.iter_mut().for_each(|x| *x = *x * factor + offset);
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        2 * output.shape.elements() as u64
    }
}

/// The same with mean and variance of each map of the batch. The operands' ones are moved towards
/// them: those are the further outputs.
#[derive(Clone, Copy, Debug)]
pub struct Training {
    epsilon: f32,
    /// The part of the operands' mean and variance that is left.
    momentum: f32,
}

impl Op for Training {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.f32(f32::NAN);
        into.f32(self.epsilon);
        into.f32(self.momentum);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (shape, maps) = (inputs[0].shape, per_map(&inputs[0].shape));
        if inputs[1..].iter().any(|input| Some(input.shape) != maps) {
            let what =
                format!("scale, bias, mean, variance are not all one value a map of {shape}");
            return Err(OpError::shape(what));
        }
        if shape.elements() == 0 {
            return Err(OpError::shape(format!("statistics of {shape}")));
        }
        Ok(inputs[0])
    }

    fn further(&self, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        Ok(inputs[3..].to_vec())
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let x = inputs.elements::<f32>(0)?;
        let (scale, bias) = (inputs.elements::<f32>(1)?, inputs.elements::<f32>(2)?);
        let (maps, area) = (scale.len(), inputs.dims(0).iter().skip(2).product::<usize>());
        let count = x.len() / maps;
        for map in 0..maps {
            let own = |at: usize| (at / area * maps + map) * area + at % area;
            let sum = |of: &dyn Fn(f64) -> f64| {
                let values = (0..count).map(|at| of(f64::from(x[own(at)])));
                #[expect(clippy::cast_precision_loss, reason = "a count of elements")]
                let mean = values.sum::<f64>() / count as f64;
                mean
            };
            let mean = sum(&|x| x);
            let variance = sum(&|x| (x - mean) * (x - mean));
            let factor = f64::from(scale[map]) / (variance + f64::from(self.epsilon)).sqrt();
            let to = output.elements::<f32>()?;
            for at in 0..count {
                let moved = (f64::from(x[own(at)]) - mean) * factor + f64::from(bias[map]);
                to[own(at)] = f32::of_f64(moved);
            }
            for (index, batch) in [mean, variance].into_iter().enumerate() {
                let before = inputs.elements::<f32>(3 + index)?[map];
                if let Some(to) = output.further::<f32>(index)? {
                    let momentum = f64::from(self.momentum);
                    let own = f64::from(before) * momentum + batch * (1.0 - momentum);
                    to[map] = f32::of_f64(own);
                }
            }
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        8 * output.shape.elements() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, assert_close, float};

    fn four(case: Case, dims: &[usize]) -> Case {
        let count: usize = dims.iter().product();
        let list = |values: [f32; 2]| float(dims, &values.repeat(count / 2));
        case.input(list([2.0, 1.0]))
            .input(list([1.0, 0.0]))
            .input(list([3.0, 0.0]))
            .input(list([4.0, 1.0]))
    }

    fn case(opset: u32) -> Case {
        Case::new(&ENTRY, opset).float("epsilon", 0.0)
    }

    #[test]
    fn one_value_a_map() {
        let x = float(&[1, 2, 1, 2], &[3.0, 5.0, 7.0, -1.0]);
        let expected = float(&[1, 2, 1, 2], &[1.0, 3.0, 7.0, -1.0]);
        for opset in [7, 9, 14, 15] {
            assert_close(&four(case(opset).input(x.clone()), &[2]).run(), &expected, 1e-6);
        }
        let old = case(1).int("is_test", 1).ints("consumed_inputs", &[0; 5]).input(x);
        assert_close(&four(old, &[2]).run(), &expected, 1e-6);
        let flat = four(case(15).input(float(&[2, 2], &[3.0, 7.0, 5.0, -1.0])), &[2]);
        assert_close(&flat.run(), &float(&[2, 2], &[1.0, 7.0, 3.0, -1.0]), 1e-6);
    }

    #[test]
    fn one_value_each_element() {
        let x = float(&[2, 1, 2], &[3.0, 7.0, 5.0, -1.0]);
        let own = four(case(8).int("spatial", 0).input(x), &[1, 2]);
        assert_close(&own.run(), &float(&[2, 1, 2], &[1.0, 7.0, 3.0, -1.0]), 1e-6);
    }

    #[test]
    fn statistics_of_the_batch() {
        let x = float(&[2, 2, 1, 2], &[1.0, 3.0, 8.0, 8.0, 5.0, 7.0, 8.0, 8.0]);
        let own = four(case(15).int("training_mode", 1).float("momentum", 0.75).input(x), &[2]);
        let [y, mean, variance] = &own.outputs(3).run_all()[..] else { panic!("3 outputs") };
        // Mean 4 and variance 5 of the first map, 8 and 0 of the second one.
        let [first, second] = [1.0, 3.0].map(|x: f32| 2.0 * x / 5.0f32.sqrt());
        let both = [1.0 - second, 1.0 - first, 0.0, 0.0, 1.0 + first, 1.0 + second, 0.0, 0.0];
        assert_eq!(*mean, float(&[2], &[3.25, 2.0]));
        assert_eq!(*variance, float(&[2], &[4.25, 0.75]));
        let found = y.elements::<f32>();
        for place in [0, 1, 4, 5] {
            assert!((found[place] - both[place]).abs() < 1e-6, "{found:?}, expected {both:?}");
        }
    }

    #[test]
    fn training_is_refused_with_a_reason() {
        let x = float(&[1, 2, 1], &[0.0; 2]);
        let old = four(case(6).input(x.clone()), &[2]);
        assert!(old.refused().contains("attribute `is_test`: 0 by default"));
        let outputs = four(case(15).input(x.clone()), &[2]).outputs(3);
        assert!(outputs.refused().contains("3 outputs; supported: 1 but in training form"));
        let other = four(case(15).int("training_mode", 2).input(x), &[2]);
        assert!(other.refused().contains("supported: 0 or 1"));
        let nothing = four(case(14).int("training_mode", 1).input(float(&[0, 2], &[])), &[2]);
        assert!(nothing.refused().contains("statistics of [0, 2]"));
    }

    #[test]
    fn other_shapes_are_refused() {
        let wrong = four(case(15).input(float(&[1, 3, 1], &[0.0; 3])), &[2]);
        assert!(wrong.refused().contains("input 1 is [2]; expected one value a map"));
        let later = four(case(9).int("spatial", 0).input(float(&[1, 2], &[0.0; 2])), &[2]);
        assert!(later.refused().contains("`spatial`: was removed in opset 9"));
    }
}
