//! Transposed convolutions whose places do not overlap become convolutions of one element, whose
//! maps are then spread over squares (DepthToSpace). What follows and is the same for all places of
//! a map, BatchNormalization, factors, offsets and functions of one element, moves in front of the
//! spreading, where it can become part of the convolution.

use npu::ops::Op;
use npu::ops::activation::Activation;
use npu::ops::batch_normalization::BatchNormalization;
use npu::ops::conv::Conv;
use npu::ops::conv_transpose::ConvTranspose;
use npu::ops::space::Space;
use npu::shape::Shape;
use npu::tensor::TensorInfo;

use crate::fuse::{other_of_two, per_map};
use crate::typed::{TensorIndex, Typed, TypedNode};

impl Typed {
    /// Replaces those that can be.
    pub(crate) fn untranspose(&mut self) {
        let readers = self.readers();
        let mut gone = vec![false; self.nodes.len()];
        let mut made: Vec<Option<Vec<TypedNode>>> = Vec::new();
        for index in 0..self.nodes.len() {
            let own = if gone[index] { None } else { self.spread(index, &readers, &mut gone) };
            made.push(own);
        }
        let nodes = std::mem::take(&mut self.nodes);
        for ((node, made), gone) in nodes.into_iter().zip(made).zip(gone) {
            match made {
                Some(made) => self.nodes.extend(made),
                None if gone => {}
                None => self.nodes.push(node),
            }
        }
    }

    /// What stands for a node, with the readers that moved; those are marked.
    fn spread(
        &mut self,
        index: usize,
        readers: &[Vec<usize>],
        gone: &mut [bool],
    ) -> Option<Vec<TypedNode>> {
        let node = &self.nodes[index];
        let size = node.op.as_any().downcast_ref::<ConvTranspose>()?.spreads()?;
        let (name, last) = (node.name.clone(), node.output());
        let (x, w, bias) = (node.inputs[0], node.inputs[1], node.inputs.get(2).copied());
        let &[batch, _, height, width] = self.shape(x).dims() else { return None };
        let &[seen, maps, _, _] = self.shape(w).dims() else { return None };
        let weights = self.constant_floats(w)?;
        let bias = bias.map(|bias| self.constant_floats(bias).ok_or(())).transpose().ok()?;
        let area = size * size;
        let mut packed = vec![0.0; weights.len()];
        for (at, weight) in weights.iter().enumerate() {
            let (c, map, tap) = (at / area / maps, at / area % maps, at % area);
            packed[(tap * maps + map) * seen + c] = *weight;
        }
        let label = self.tensors[w].name.clone();
        let mut inputs = vec![x, self.add_floats(&label, &[area * maps, seen, 1, 1], &packed)?];
        if let Some(bias) = bias {
            inputs.push(self.add_floats(&label, &[area * maps], &bias.repeat(area))?);
        }
        let shape = Shape::new(&[batch, area * maps, height, width]).ok()?;
        let info = TensorInfo::new(npu::DataType::FLOAT, shape);
        let conv = Conv {
            rank: 2,
            strides: [1; 3],
            dilations: [1; 3],
            pads_begin: [0; 3],
            pads_end: [0; 3],
            group: 1,
            activation: Activation::None,
        };
        let at = self.add(&format!("{name} before it is spread"), info, None);
        self.story.stands_for(at, last);
        self.story.tell(last, "a convolution of one element, spread over squares");
        let op: Box<dyn Op> = Box::new(conv);
        let mut made = vec![TypedNode { name, op, inputs, outputs: vec![at] }];
        let spread = self.move_readers(last, area, readers, gone, &mut made);
        let (name, op) = (format!("{} spread", made[0].name), Box::new(Space::spread(size)));
        let from = made.last()?.output();
        made.push(TypedNode { name, op, inputs: vec![from], outputs: vec![spread] });
        Some(made)
    }

    /// Moves what reads `tensor` alone in front of the spreading; returns what the last one made.
    fn move_readers(
        &mut self,
        mut tensor: TensorIndex,
        area: usize,
        readers: &[Vec<usize>],
        gone: &mut [bool],
        made: &mut Vec<TypedNode>,
    ) -> TensorIndex {
        while let Some(next) = self.only_reader(tensor, readers)
            && let Some(from) = made.last().map(TypedNode::output)
            && let Some(others) = self.repeated(next, tensor, area)
            && let Some(op) = self.copy_of(&self.nodes[next])
        {
            let (name, info) = (self.nodes[next].name.clone(), self.tensors[from].info);
            let inputs = std::iter::once(from).chain(others).collect();
            let outputs_at = self.add(&format!("{name} before it is spread"), info, None);
            let outputs = vec![outputs_at];
            made.push(TypedNode { name, op, inputs, outputs });
            (gone[next], tensor) = (true, self.nodes[next].output());
            self.story.stands_for(outputs_at, tensor);
            self.story.tell(tensor, "in front of the spreading");
        }
        tensor
    }

    /// The other inputs of a node that can move, each of its values once for each place.
    fn repeated(
        &mut self,
        node: usize,
        tensor: TensorIndex,
        area: usize,
    ) -> Option<Vec<TensorIndex>> {
        let node = &self.nodes[node];
        if node.op.activation().is_some() {
            return Some(Vec::new());
        }
        if let Some(constant) = other_of_two(&node.inputs, tensor) {
            let shape = self.shape(tensor);
            let (own, result) = (self.shape(constant), self.shape(node.output()));
            let is_per_map = per_map(&own, &shape, node.op.as_ref()).filter(|_| result == shape)?;
            let values = self.constant_floats(constant)?.repeat(area);
            if !is_per_map {
                return Some(vec![constant]);
            }
            let name = self.tensors[constant].name.clone();
            return Some(vec![self.add_floats(&name, &[values.len(), 1, 1], &values)?]);
        }
        if node.inputs[0] != tensor {
            return None;
        }
        node.op.as_any().downcast_ref::<BatchNormalization>()?;
        let values = node.inputs[1..].iter().map(|input| {
            let name = self.tensors[*input].name.clone();
            self.constant_floats(*input).map(|values| (name, values.repeat(area)))
        });
        let values: Vec<(String, Vec<f32>)> = values.collect::<Option<_>>()?;
        values.iter().map(|(name, own)| self.add_floats(name, &[own.len()], own)).collect()
    }
}

#[cfg(test)]
mod tests;
