//! Fusion into a Conv: what follows it and is known in advance becomes part of it.
//!
//! * A factor and an offset for each feature map (BatchNormalization, Mul and Add with a constant
//!   of such a shape) go into weights and bias.
//! * A function of one element goes into the Conv's parameters, with a factor and an offset for
//!   all maps behind it where there is such an activation.
//!
//! Only if nobody else reads what lies between.

use bytes::Bytes;
use npu::ops::add::Add;
use npu::ops::batch_normalization::BatchNormalization;
use npu::ops::conv::Conv;
use npu::ops::mul::Mul;
use npu::ops::{Activation, Op};
use npu::shape::Shape;
use npu::tensor::TensorInfo;

use crate::typed::{TensorIndex, Typed};

/// A factor and an offset for each feature map.
struct Affine {
    factors: Vec<f64>,
    offsets: Vec<f64>,
}

impl Typed {
    /// Fuses until nothing changes.
    pub(crate) fn fuse(&mut self) {
        let mut readers = vec![0usize; self.tensors.len()];
        let inputs = self.nodes.iter().flat_map(|node| &node.inputs);
        for tensor in inputs.chain(self.outputs.iter().map(|(_, output)| output)) {
            readers[*tensor] += 1;
        }
        let mut reader_of = vec![None; self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            node.inputs.iter().for_each(|input| reader_of[*input] = Some(index));
        }
        let mut gone = vec![false; self.nodes.len()];
        for conv in 0..self.nodes.len() {
            // Each round takes in the only reader of the Conv's result.
            while let Some(reader) = reader_of
                .get(self.nodes[conv].output())
                .copied()
                .flatten()
                .filter(|_| readers[self.nodes[conv].output()] == 1)
            {
                let by = self.nodes[conv].output();
                let Some(what) = self.take_in(conv, reader) else {
                    self.tell_rest(conv, reader);
                    break;
                };
                self.story.takes(by, self.nodes[reader].output(), what);
                self.nodes[conv].outputs = self.nodes[reader].outputs.clone();
                gone[reader] = true;
            }
        }
        let mut gone = gone.into_iter();
        self.nodes.retain(|_| !gone.next().unwrap_or(false));
        self.tell_shared(&readers);
    }

    /// Makes `reader` part of `conv`: as what; `None` when it can't be.
    fn take_in(&mut self, conv: usize, reader: usize) -> Option<&'static str> {
        let own = self.nodes[conv].op.as_any().downcast_ref::<Conv>().copied()?;
        if own.activation != Activation::None {
            return self.scale(conv, own, reader).map(|()| "factor and offset of its function");
        }
        if let Some(activation) = self.nodes[reader].op.activation() {
            self.nodes[conv].op = Box::new(own.with_activation(activation));
            return Some("its function");
        }
        let affine = self.affine(conv, reader)?;
        self.absorb(conv, &affine).map(|()| "factors and offsets, in weights and bias")
    }

    /// Tells why a convolution does not take in what alone reads its result; of another
    /// convolution nobody asks.
    fn tell_rest(&mut self, conv: usize, reader: usize) {
        let (node, next) = (&self.nodes[conv], &self.nodes[reader]);
        let Some(own) = node.op.as_any().downcast_ref::<Conv>() else { return };
        if next.op.as_any().is::<Conv>() {
            return;
        }
        let why = if own.activation == Activation::None {
            "no function that can be taken in, and no known factor or offset for each map"
        } else {
            "there is a function already, and this is no factor or offset for all its maps"
        };
        let what = format!("`{}` ({:?}) stays behind it: {why}", next.name, next.op);
        self.story.tell_behind(node.output(), next.output(), what);
    }

    /// Tells which convolutions take in nothing as several read their results.
    fn tell_shared(&mut self, readers: &[usize]) {
        for node in self.nodes.iter().filter(|node| node.op.as_any().is::<Conv>()) {
            let count = readers.get(node.output()).copied().unwrap_or(0);
            if count > 1 {
                let what = format!("takes in nothing more: its result is read {count} times");
                self.story.tell(node.output(), what);
            }
        }
    }

    /// Makes a factor or an offset for all feature maps part of the activation.
    fn scale(&mut self, conv: usize, own: Conv, reader: usize) -> Option<()> {
        let Affine { factors, offsets } = self.affine(conv, reader)?;
        let (factor, offset) = (*factors.first()?, *offsets.first()?);
        let same = factors.iter().all(|own| *own == factor);
        if !same || offsets.iter().any(|own| *own != offset) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "they were floats")]
        let activation = own.activation.scaled(factor as f32, offset as f32)?;
        self.nodes[conv].op = Box::new(own.with_activation(activation));
        Some(())
    }

    /// What `reader` does to each feature map of the result of `conv`.
    fn affine(&self, conv: usize, reader: usize) -> Option<Affine> {
        let (result, reader) = (self.nodes[conv].output(), &self.nodes[reader]);
        let shape = self.tensors[result].info.shape;
        let maps = shape.dims()[1];
        let op = reader.op.as_any();
        if let Some(norm) = op.downcast_ref::<BatchNormalization>() {
            if reader.inputs[0] != result {
                return None;
            }
            let list =
                |index: usize| self.floats(reader.inputs[index]).filter(|own| own.len() == maps);
            let (scale, bias, mean, variance) = (list(1)?, list(2)?, list(3)?, list(4)?);
            let epsilon = f64::from(norm.epsilon);
            let factors: Vec<f64> =
                scale.iter().zip(&variance).map(|(s, v)| s / (v + epsilon).sqrt()).collect();
            let offsets = (0..maps).map(|map| bias[map] - mean[map] * factors[map]).collect();
            return Some(Affine { factors, offsets });
        }
        let constant = other_of_two(&reader.inputs, result)?;
        if self.tensors[reader.output()].info.shape != shape {
            return None;
        }
        let values = self.floats(constant)?;
        let per_map = per_map(&self.tensors[constant].info.shape, &shape, reader.op.as_ref())?;
        let values = if per_map { values } else { vec![*values.first()?; maps] };
        if op.is::<Add>() {
            return Some(Affine { factors: vec![1.0; maps], offsets: values });
        }
        op.is::<Mul>().then(|| Affine { factors: values, offsets: vec![0.0; maps] })
    }

    /// Weights and bias of `conv` with a factor and an offset for each feature map of its result.
    fn absorb(&mut self, conv: usize, affine: &Affine) -> Option<()> {
        let inputs = self.nodes[conv].inputs.clone();
        let maps = affine.factors.len();
        let info = self.tensors[inputs[1]].info;
        let weights = self.floats(inputs[1])?;
        let bias = match inputs.get(2) {
            Some(bias) => self.floats(*bias)?,
            None => vec![0.0; maps],
        };
        let scaled = (0..maps).map(|map| bias[map] * affine.factors[map] + affine.offsets[map]);
        let bias = bytes(scaled);
        let each = weights.len() / maps.max(1);
        let scaled = weights.iter().enumerate().map(|(at, w)| w * affine.factors[at / each.max(1)]);
        let (own_weights, own_bias) =
            (bytes(scaled), TensorInfo::new(info.dtype, Shape::new(&[maps]).ok()?));
        let name = self.tensors[inputs[1]].name.clone();
        // Without a factor the weights stay a part of the model's file.
        let weights = if affine.factors.iter().all(|factor| *factor == 1.0) {
            inputs[1]
        } else {
            self.add(&name, info, Some(own_weights))
        };
        let bias = self.add(&format!("{name} bias"), own_bias, Some(bias));
        self.nodes[conv].inputs = vec![inputs[0], weights, bias];
        Some(())
    }

    /// The values of a constant of floats.
    fn floats(&self, index: TensorIndex) -> Option<Vec<f64>> {
        let tensor = &self.tensors[index];
        if tensor.info.dtype != npu::DataType::FLOAT {
            return None;
        }
        let (words, _) = tensor.value.as_ref()?.as_chunks();
        Some(words.iter().map(|word| f64::from(f32::from_le_bytes(*word))).collect())
    }
}

/// The other input of a node that has two.
pub(crate) fn other_of_two(inputs: &[TensorIndex], one: TensorIndex) -> Option<TensorIndex> {
    match *inputs {
        [a, b] if a == one && b != one => Some(b),
        [a, b] if b == one && a != one => Some(a),
        _ => None,
    }
}

/// Whether a constant has one value a feature map (true) or one for all (false); `None` for others.
pub(crate) fn per_map(constant: &Shape, result: &Shape, op: &dyn Op) -> Option<bool> {
    use npu::ops::Broadcast;
    let rule = match (op.as_any().downcast_ref::<Add>(), op.as_any().downcast_ref::<Mul>()) {
        (Some(add), _) => add.broadcast,
        (_, Some(mul)) => mul.broadcast,
        _ => return None,
    };
    if constant.elements() == 1 {
        return Some(false);
    }
    // Where the constant's dims stand among the result's.
    let at = match rule {
        Broadcast::Numpy => result.rank().checked_sub(constant.rank())?,
        Broadcast::At(at) => at,
        _ => return None,
    };
    let per_map = constant
        .dims()
        .iter()
        .enumerate()
        .all(|(index, dim)| *dim == if at + index == 1 { result.dims()[1] } else { 1 });
    (per_map && constant.elements() == result.dims()[1]).then_some(true)
}

#[expect(clippy::cast_possible_truncation, reason = "rounded to the kernel's precision")]
fn bytes(values: impl Iterator<Item = f64>) -> Bytes {
    values.flat_map(|value| (value as f32).to_le_bytes()).collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests;
