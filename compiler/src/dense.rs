//! Dense layers: a product with a constant matrix becomes an op with packed weights, and takes in
//! the offset and the function of one element that follow it, if nobody else reads what lies
//! between.

use npu::ops::add::Add;
use npu::ops::blocked::{BLOCK, Dense, blocks, pack_columns, pack_maps};
use npu::ops::mat_mul::MatMul;
use npu::ops::{Activation, Broadcast};

use crate::typed::{TensorIndex, Typed};

/// A layer that is found: its columns are no longer than their blocks by more than half.
struct Layer {
    depth: usize,
    columns: usize,
    bias: Option<Vec<f32>>,
    activation: Activation,
    /// The nodes that it takes in, and what the last of them makes.
    taken: Vec<usize>,
    output: TensorIndex,
}

impl Typed {
    /// Makes products with constant matrices dense layers.
    pub(crate) fn dense(&mut self) {
        let readers = self.readers();
        let mut gone = vec![false; self.nodes.len()];
        for index in 0..self.nodes.len() {
            let made = self.nodes[index].output();
            let Some(layer) = self.layer(index, &readers) else {
                self.tell_plain(index);
                continue;
            };
            if self.pack_layer(index, &layer).is_some() {
                self.story.tell(made, "weights packed");
                for taken in layer.taken {
                    gone[taken] = true;
                    self.story.takes(made, self.nodes[taken].output(), "its offset or function");
                }
            }
        }
        let mut gone = gone.into_iter();
        self.nodes.retain(|_| !gone.next().unwrap_or(false));
    }

    /// Tells why a product is no dense layer.
    fn tell_plain(&mut self, index: usize) {
        let node = &self.nodes[index];
        if !node.op.as_any().is::<MatMul>() {
            return;
        }
        let (made, matrix) = (node.output(), node.inputs[1]);
        let why = match *self.shape(matrix).dims() {
            _ if self.constant_floats(matrix).is_none() => "it is no constant of floats".to_owned(),
            [_, columns] if blocks(columns) * BLOCK > 2 * columns => {
                format!("{columns} columns fill less than half of blocks of {BLOCK}")
            }
            [_, _] => "the other operand is a vector, or empty".to_owned(),
            _ => format!("it is {}, no matrix", self.shape(matrix)),
        };
        self.story.tell(made, format!("second operand not packed: {why}"));
    }

    fn layer(&self, index: usize, readers: &[Vec<usize>]) -> Option<Layer> {
        let node = &self.nodes[index];
        node.op.as_any().downcast_ref::<MatMul>()?;
        let (x, result) = (self.shape(node.inputs[0]), self.shape(node.output()));
        let &[depth, columns] = self.shape(node.inputs[1]).dims() else { return None };
        self.constant_floats(node.inputs[1])?;
        let small = blocks(columns) * BLOCK > 2 * columns;
        if small || x.rank() < 2 || depth == 0 || result.elements() == 0 {
            return None;
        }
        let (bias, activation, taken) = (None, Activation::None, Vec::new());
        let mut layer = Layer { depth, columns, bias, activation, taken, output: node.output() };
        while let Some(next) = self.only_reader(layer.output, readers) {
            if layer.bias.is_none() {
                layer.bias = self.offset(next, &layer);
                if layer.bias.is_some() {
                    layer.take(next, self.nodes[next].output());
                    continue;
                }
            }
            if let Some(activation) = self.nodes[next].op.activation() {
                layer.activation = activation;
                layer.take(next, self.nodes[next].output());
            }
            break;
        }
        Some(layer)
    }

    /// What a node adds to each column.
    fn offset(&self, node: usize, layer: &Layer) -> Option<Vec<f32>> {
        let node = &self.nodes[node];
        let add = node.op.as_any().downcast_ref::<Add>()?;
        let other = match node.inputs[..] {
            [a, b] if a == layer.output && b != layer.output => b,
            [a, b] if b == layer.output && a != layer.output => a,
            _ => return None,
        };
        let shape = self.shape(other);
        let along = shape.dims().split_last().is_some_and(|(last, before)| {
            *last == layer.columns && before.iter().all(|dim| *dim == 1)
        });
        let same = self.shape(node.output()) == self.shape(layer.output);
        if !along || !same || !matches!(add.broadcast, Broadcast::Numpy | Broadcast::Equal) {
            return None;
        }
        self.constant_floats(other)
    }

    /// Replaces the product; its readers are taken in by the caller.
    fn pack_layer(&mut self, index: usize, layer: &Layer) -> Option<()> {
        let (x, w) = (self.nodes[index].inputs[0], self.nodes[index].inputs[1]);
        let matrix = self.constant_floats(w)?;
        let name = self.tensors[w].name.clone();
        let (dims, packed) = pack_columns([layer.depth, layer.columns], &matrix);
        let weights = self.add_floats(&name, &dims, &packed)?;
        let bias = layer.bias.clone().unwrap_or_else(|| vec![0.0; layer.columns]);
        let bias_dims = [blocks(layer.columns), BLOCK];
        let bias = self.add_floats(&format!("{name} bias"), &bias_dims, &pack_maps(&bias))?;
        let node = &mut self.nodes[index];
        node.op = Box::new(Dense { columns: layer.columns, activation: layer.activation });
        node.inputs = vec![x, weights, bias];
        node.outputs = vec![layer.output];
        Some(())
    }
}

impl Layer {
    fn take(&mut self, node: usize, output: TensorIndex) {
        self.taken.push(node);
        self.output = output;
    }
}

#[cfg(test)]
mod tests;
