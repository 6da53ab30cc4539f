//! Functions that a model spells out become the op that they are: hard sigmoids and hard swishes
//! written with Add, Clip, Mul and Div, swishes written with Sigmoid and Mul, and what transformers
//! spell out ([`transformers`]).
//!
//! A found op stands where the last node of its pattern stood; what nobody reads then goes with
//! the unused.

use npu::ops::Op;
use npu::ops::add::Add;
use npu::ops::arithmetic::DIV;
use npu::ops::clip::Clip;
use npu::ops::exponential::{Sigmoid, Swish};
use npu::ops::hard_sigmoid::HardSigmoid;
use npu::ops::hard_swish::HardSwish;
use npu::ops::mul::Mul;
use npu::ops::unary::Unary;

use crate::typed::{TensorIndex, Typed, TypedNode};

mod transformers;

/// How far a slope may be from a sixth: exporters write it with six digits.
const NEAR: f32 = 1e-5;

impl Typed {
    /// Finds patterns, inner ones first.
    pub(crate) fn name_patterns(&mut self) {
        let mut maker = vec![None; self.tensors.len()];
        for index in 0..self.nodes.len() {
            let found = self
                .hard_sigmoid(index, &maker)
                .or_else(|| self.hard_swish(index, &maker))
                .or_else(|| self.swish(index, &maker));
            let found = found.or_else(|| self.gelu(index, &maker));
            let found = found.map(|(op, x)| (op, vec![x]));
            if let Some((op, inputs)) = found.or_else(|| self.layer_norm(index, &maker)) {
                let name = op.line().name;
                let what = format!("with nodes before it this is a {name}");
                self.story.tell(self.nodes[index].output(), what);
                self.nodes[index].op = op;
                self.nodes[index].inputs = inputs;
            }
            self.nodes[index].outputs.iter().for_each(|output| maker[*output] = Some(index));
        }
    }

    /// Bounds of floats that are known become parameters: a function of one element is left.
    pub(crate) fn know_bounds(&mut self) {
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            let Some(clip) = node.op.as_any().downcast_ref::<Clip>() else { continue };
            let float = self.tensors[node.output()].info.dtype == npu::DataType::FLOAT;
            let bound = |operand: usize| node.inputs.get(operand).and_then(|x| self.number(*x));
            let Some((low, high)) = clip.known_bounds(bound).filter(|_| float) else { continue };
            self.nodes[index].op = Box::new(Clip::given(low, high));
            self.nodes[index].inputs.truncate(1);
        }
    }

    fn made_by(&self, tensor: TensorIndex, maker: &[Option<usize>]) -> Option<&TypedNode> {
        maker.get(tensor).copied().flatten().map(|index| &self.nodes[index])
    }

    /// The value of a constant of one element.
    pub(crate) fn number(&self, tensor: TensorIndex) -> Option<f32> {
        let one = (self.shape(tensor).elements() == 1).then_some(tensor)?;
        self.constant_floats(one)?.first().copied()
    }

    /// A tensor and a number, in either order, whose result has the tensor's shape.
    pub(crate) fn with_number(&self, node: &TypedNode) -> Option<(TensorIndex, f32)> {
        let &[a, b] = &node.inputs[..] else { return None };
        let same = |own: TensorIndex| self.shape(own) == self.shape(node.output());
        let second = self.number(b).filter(|_| same(a)).map(|number| (a, number));
        second.or_else(|| self.number(a).filter(|_| same(b)).map(|number| (b, number)))
    }

    /// `x` of `clip(x + 3, 0, 6)`.
    fn clipped(&self, tensor: TensorIndex, maker: &[Option<usize>]) -> Option<TensorIndex> {
        let clip = self.made_by(tensor, maker)?;
        let bounds =
            clip.op.as_any().downcast_ref::<Clip>()?.known_bounds(|operand| {
                clip.inputs.get(operand).and_then(|input| self.number(*input))
            });
        if bounds != Some((0.0, 6.0)) {
            return None;
        }
        let add = self.made_by(*clip.inputs.first()?, maker)?;
        add.op.as_any().downcast_ref::<Add>()?;
        let (x, offset) = self.with_number(add)?;
        (offset == 3.0).then_some(x)
    }

    /// What a node divides by 6.
    fn sixth(&self, node: &TypedNode) -> Option<TensorIndex> {
        let (x, number) = self.with_number(node)?;
        let divides = node.op.code() == DIV.code && node.inputs[0] == x && number == 6.0;
        let scales = node.op.as_any().is::<Mul>() && (number - 1.0 / 6.0).abs() < NEAR;
        (divides || scales).then_some(x)
    }

    fn hard_sigmoid(
        &self,
        index: usize,
        maker: &[Option<usize>],
    ) -> Option<(Box<dyn Op>, TensorIndex)> {
        let x = self.clipped(self.sixth(&self.nodes[index])?, maker)?;
        let op = HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 };
        Some((Box::new(op), x))
    }

    fn hard_swish(
        &self,
        index: usize,
        maker: &[Option<usize>],
    ) -> Option<(Box<dyn Op>, TensorIndex)> {
        let node = &self.nodes[index];
        // (x * clip(x + 3, 0, 6)) / 6
        if let Some(product) = self.sixth(node).and_then(|tensor| self.made_by(tensor, maker)) {
            let x = self.product(product, |own| self.clipped(own, maker));
            return x.map(|x| (Box::new(HardSwish) as Box<dyn Op>, x));
        }
        // x * hard_sigmoid(x)
        let x = self.product(node, |own| {
            let sigmoid = self.made_by(own, maker)?;
            let op = sigmoid.op.as_any().downcast_ref::<HardSigmoid>()?;
            let own = (op.alpha - 1.0 / 6.0).abs() < NEAR && op.beta == 0.5;
            own.then_some(sigmoid.inputs[0])
        });
        x.map(|x| (Box::new(HardSwish) as Box<dyn Op>, x))
    }

    fn swish(&self, index: usize, maker: &[Option<usize>]) -> Option<(Box<dyn Op>, TensorIndex)> {
        let sigmoid_of = |own: TensorIndex| {
            let sigmoid = self.made_by(own, maker)?;
            sigmoid.op.as_any().is::<Unary<Sigmoid>>().then_some(sigmoid.inputs[0])
        };
        let node = &self.nodes[index];
        let plain = self.product(node, sigmoid_of).map(|x| (x, 1.0));
        // Of a multiple of `x`, too.
        let multiple = |own| {
            let scaled = self.made_by(sigmoid_of(own)?, maker)?;
            scaled.op.as_any().downcast_ref::<Mul>()?;
            self.with_number(scaled)
        };
        let scaled = || {
            let x = self.product(node, |own| multiple(own).map(|(x, _)| x))?;
            let factor = node.inputs.iter().find_map(|own| multiple(*own)).map(|own| own.1)?;
            Some((x, factor))
        };
        let (x, factor) = plain.or_else(scaled)?;
        let float = self.tensors[x].info.dtype == npu::DataType::FLOAT;
        let op: Box<dyn Op> = Box::new(Unary::<Swish>::new([factor, 0.0]));
        float.then_some((op, x))
    }

    /// `x` of the product of `x` and a function of `x`.
    fn product(
        &self,
        node: &TypedNode,
        of: impl Fn(TensorIndex) -> Option<TensorIndex>,
    ) -> Option<TensorIndex> {
        node.op.as_any().downcast_ref::<Mul>()?;
        let &[a, b] = &node.inputs[..] else { return None };
        let found = of(b).filter(|x| *x == a).or_else(|| of(a).filter(|x| *x == b))?;
        (self.shape(found) == self.shape(node.output())).then_some(found)
    }
}

#[cfg(test)]
mod tests;
