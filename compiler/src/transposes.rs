//! Transposes move behind the nodes that can do without them, until two that undo each other meet
//! and both go. What is transposed by its definition, or by how a model was written (images of
//! TensorFlow have their maps last), is then transposed at the borders only.
//!
//! A node can do without when it treats all places alike (functions of one element, Add, Sub, Mul
//! and Div), or when it has axes that can be others (Concat, Pad, reductions). The moved graph is
//! taken only if it transposes fewer elements. A transpose that moves nothing but dims of 1 copies
//! nothing: it becomes a Reshape.

use std::collections::BTreeSet;

use npu::ops::add::Add;
use npu::ops::arithmetic::{Minus, Over};
use npu::ops::concat::Concat;
use npu::ops::mul::Mul;
use npu::ops::pad::Pad;
use npu::ops::pairwise::Pairwise;
use npu::ops::reduce::Reduce;
use npu::ops::reshape::Reshape;
use npu::ops::transpose::Transpose;
use npu::ops::{Broadcast, Op};
use npu::shape::Shape;
use npu::tensor::TensorInfo;

use crate::fold::{Budget, fold};
use crate::typed::{TensorIndex, Typed, TypedNode};

/// A tensor that is another one, transposed.
#[derive(Clone, Debug)]
struct Turned {
    source: TensorIndex,
    order: Vec<usize>,
    /// No node makes it yet.
    absent: bool,
}

/// A node whose inputs are not transposed: its result then has to be brought into an order.
struct Without {
    op: Box<dyn Op>,
    inputs: Vec<TensorIndex>,
    order: Vec<usize>,
}

/// The graph while its transposes move.
struct Moving<'a> {
    graph: &'a mut Typed,
    turned: Vec<Option<Turned>>,
    nodes: Vec<TypedNode>,
    budget: Budget,
}

fn transpose(node: &TypedNode) -> Option<&Transpose> {
    node.op.as_any().downcast_ref()
}

fn is_identity(order: &[usize]) -> bool {
    order.iter().enumerate().all(|(index, dim)| index == *dim)
}

impl Typed {
    /// Moves transposes where that spares some.
    pub(crate) fn move_transposes(&mut self) {
        if self.nodes.iter().filter(|node| transpose(node).is_some()).count() >= 2 {
            let (before, outputs) = (self.transposed(&self.nodes), self.outputs.clone());
            match self.moved() {
                Some(nodes) if self.transposed(&nodes) < before => {
                    self.tell_gone(&nodes);
                    self.nodes = nodes;
                }
                _ => self.outputs = outputs,
            }
        }
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            let Some(own) = transpose(node) else { continue };
            let (from, shape) = (self.shape(node.inputs[0]), self.shape(node.output()));
            let large = own.order().iter().filter(|dim| from.dims()[**dim] != 1);
            if large.is_sorted() {
                let made = self.nodes[index].output();
                self.nodes[index].op = Box::new(Reshape { shape });
                self.story.tell(made, "moves nothing but dims of 1");
            }
        }
    }

    /// Tells which transposes are not among the nodes that are left.
    fn tell_gone(&mut self, left: &[TypedNode]) {
        let left: BTreeSet<TensorIndex> =
            left.iter().flat_map(|node| node.outputs.clone()).collect();
        for node in self.nodes.iter().filter(|node| transpose(node).is_some()) {
            if !left.contains(&node.output()) {
                self.story.tell(node.output(), "gone: one that undoes it, or a later one, does");
            }
        }
    }

    /// Elements that transposes of these nodes copy.
    fn transposed(&self, nodes: &[TypedNode]) -> usize {
        let transposes = nodes.iter().filter(|node| transpose(node).is_some());
        let elements = transposes.map(|node| self.shape(node.output()).elements());
        elements.fold(0, usize::saturating_add)
    }

    /// The nodes with transposes as late as they can be; outputs are changed.
    fn moved(&mut self) -> Option<Vec<TypedNode>> {
        let copies = self.nodes.iter().map(|node| {
            let TypedNode { name, inputs, outputs, .. } = node;
            let (name, inputs, outputs) = (name.clone(), inputs.clone(), outputs.clone());
            self.copy_of(node).map(|op| TypedNode { name, op, inputs, outputs })
        });
        let copies: Vec<TypedNode> = copies.collect::<Option<_>>()?;
        let turned = vec![None; self.tensors.len()];
        let (nodes, budget) = (Vec::new(), Budget::default());
        let mut moving = Moving { graph: self, turned, nodes, budget };
        for node in copies {
            moving.node(node);
        }
        for index in 0..moving.graph.outputs.len() {
            let output = moving.graph.outputs[index].1;
            moving.graph.outputs[index].1 = moving.there(output);
        }
        Some(moving.nodes)
    }
}

impl Moving<'_> {
    fn turned(&self, tensor: TensorIndex) -> Option<&Turned> {
        self.turned.get(tensor).and_then(Option::as_ref)
    }

    fn node(&mut self, mut node: TypedNode) {
        for input in &mut node.inputs {
            if let Some(own) = self.turned(*input).filter(|own| is_identity(&own.order)) {
                *input = own.source;
            }
        }
        if let Some(own) = transpose(&node) {
            let (source, order) = match self.turned(node.inputs[0]) {
                Some(Turned { source, order, .. }) => {
                    (*source, own.order().iter().map(|dim| order[*dim]).collect())
                }
                None => (node.inputs[0], own.order().to_vec()),
            };
            self.turned[node.output()] = Some(Turned { source, order, absent: true });
            return;
        }
        if let Some(Without { op, inputs, order }) = self.without(&node) {
            let from = self.graph.tensors[node.output()].info;
            let mut dims = from.shape.dims().to_vec();
            order.iter().zip(from.shape.dims()).for_each(|(to, dim)| dims[*to] = *dim);
            if let Ok(shape) = Shape::new(&dims) {
                let name = format!("{} before it is transposed", node.name);
                let info = TensorInfo::new(from.dtype, shape);
                let source = self.add(&name, info);
                self.graph.story.stands_for(source, node.output());
                self.turned[node.output()] = Some(Turned { source, order, absent: true });
                let outputs = vec![source];
                self.nodes.push(TypedNode { name: node.name, op, inputs, outputs });
                return;
            }
        }
        node.inputs.iter_mut().for_each(|input| *input = self.there(*input));
        self.nodes.push(node);
    }

    fn add(&mut self, name: &str, info: TensorInfo) -> TensorIndex {
        let index = self.graph.add(name, info, None);
        self.turned.resize(index + 1, None);
        index
    }

    /// The tensor, made by a transpose if it is not there: or the one that it is a copy of.
    fn there(&mut self, tensor: TensorIndex) -> TensorIndex {
        let Some(own) = self.turned.get_mut(tensor).and_then(Option::as_mut) else { return tensor };
        if is_identity(&own.order) {
            return own.source;
        }
        if std::mem::take(&mut own.absent)
            && let Some(op) = Transpose::of(&own.order)
        {
            let name = self.graph.tensors[tensor].name.clone();
            let (inputs, outputs) = (vec![own.source], vec![tensor]);
            self.nodes.push(TypedNode { name, op: Box::new(op), inputs, outputs });
        }
        tensor
    }

    /// What a node becomes when its inputs are not transposed.
    fn without(&mut self, node: &TypedNode) -> Option<Without> {
        let order = node.inputs.iter().find_map(|input| self.turned(*input))?.order.clone();
        let (op, result) = self.reordered(node, &order)?;
        if self.graph.shape(node.output()).rank() != result.len() || node.outputs.len() != 1 {
            return None;
        }
        let mut inputs = Vec::new();
        for (index, input) in node.inputs.iter().enumerate() {
            let source = match self.turned(*input) {
                Some(own) if own.order == order => own.source,
                Some(_) => return None,
                // Operands of Pad and of reductions after the first one are no images.
                None if index > 0 && !is_pair(node) => *input,
                None => self.constant(*input, &order)?,
            };
            inputs.push(source);
        }
        Some(Without { op, inputs, order: result })
    }

    /// The op of a tensor whose dim `order[i]` is what was dim `i`, and the order of its result.
    fn reordered(&self, node: &TypedNode, order: &[usize]) -> Option<(Box<dyn Op>, Vec<usize>)> {
        let (op, same) = (node.op.as_any(), order.to_vec());
        if node.op.is_elementwise() || is_pair(node) {
            return self.graph.copy_of(node).map(|op| (op, same));
        }
        if let Some(concat) = op.downcast_ref::<Concat>() {
            let turned = node.inputs.iter().all(|input| self.turned(*input).is_some());
            let axis = *order.get(concat.axis).filter(|_| turned)?;
            return Some((Box::new(Concat { axis }), same));
        }
        let first = self.turned(*node.inputs.first()?)?;
        if first.order != order {
            return None;
        }
        if let Some(pad) = op.downcast_ref::<Pad>() {
            return Some((Box::new(pad.reordered(order)?), same));
        }
        let (reduce, result) = op.downcast_ref::<Reduce>()?.reordered(order)?;
        Some((Box::new(reduce), result))
    }

    /// A constant that meets a tensor whose dim `order[i]` is what was dim `i`.
    fn constant(&mut self, tensor: TensorIndex, order: &[usize]) -> Option<TensorIndex> {
        let own = &self.graph.tensors[tensor];
        let (info, name) = (own.info, format!("{} in another order", own.name));
        own.value.as_ref()?;
        if info.shape.elements() == 1 && info.shape.rank() <= order.len() {
            return Some(tensor);
        }
        // Dims of 1 in front, as broadcasting has it.
        let front = order.len().checked_sub(info.shape.rank())?;
        let mut dims = vec![1; order.len()];
        dims[front..].copy_from_slice(info.shape.dims());
        let (mut inverse, mut shape) = (vec![0; order.len()], vec![0; order.len()]);
        for (dim, to) in order.iter().enumerate() {
            (inverse[*to], shape[*to]) = (dim, dims[dim]);
        }
        let value = own.value.clone();
        let whole = TensorInfo::new(info.dtype, Shape::new(&dims).ok()?);
        let whole = self.graph.add(&name, whole, value);
        let info = TensorInfo::new(info.dtype, Shape::new(&shape).ok()?);
        let (op, tensors) = (Transpose::of(&inverse)?, &mut self.graph.tensors);
        let values = fold(&op, tensors, &[whole], &[info], &mut self.budget).ok().flatten()?;
        let index = self.graph.add(&name, info, values.into_iter().next());
        self.turned.resize(index + 1, None);
        Some(index)
    }
}

/// Whether a node makes each element of those at the same place of two tensors.
fn is_pair(node: &TypedNode) -> bool {
    let op = node.op.as_any();
    let rules = [
        op.downcast_ref::<Add>().map(|own| own.broadcast),
        op.downcast_ref::<Mul>().map(|own| own.broadcast),
        op.downcast_ref::<Pairwise<Minus>>().map(|own| own.broadcast),
        op.downcast_ref::<Pairwise<Over>>().map(|own| own.broadcast),
    ];
    rules.into_iter().flatten().any(|rule| matches!(rule, Broadcast::Numpy | Broadcast::Equal))
}

#[cfg(test)]
mod tests;
