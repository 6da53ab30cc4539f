//! What exporters of transformers spell out: GELU, exact by Erf and nearly so by Tanh, and
//! LayerNormalization over the last dim.
//!
//! ```text
//! GELU   x * (1 + erf(x / sqrt(2))) * 0.5, factors in any order
//!        x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) * 0.5
//! layer  d = x - mean(x); d / sqrt(mean(d^2) + epsilon) * scale + offset
//! ```

use npu::ops::Op;
use npu::ops::add::Add;
use npu::ops::gelu::Gelu;
use npu::ops::mul::Mul;
use npu::ops::normalization::Norm;

use super::NEAR;
use crate::fuse::other_of_two;
use crate::typed::{TensorIndex, Typed, TypedNode};

type Makers = [Option<usize>];

fn is(node: &TypedNode, op: &str) -> bool {
    node.op.line().name == op
}

fn is_near(number: f32, to: f64) -> bool {
    (f64::from(number) - to).abs() < f64::from(NEAR)
}

impl Typed {
    /// The maker of a tensor, if it is such an op.
    fn made_as(&self, op: &str, tensor: TensorIndex, maker: &Makers) -> Option<&TypedNode> {
        self.made_by(tensor, maker).filter(|node| is(node, op))
    }

    pub(super) fn gelu(&self, index: usize, maker: &Makers) -> Option<(Box<dyn Op>, TensorIndex)> {
        let node = &self.nodes[index];
        node.op.as_any().downcast_ref::<Mul>()?;
        let found = |nearly| Some((self.gelu_of(node, nearly, maker)?, nearly));
        let (x, nearly) = found(false).or_else(|| found(true))?;
        let float = self.tensors[x].info.dtype == npu::DataType::FLOAT;
        float.then(|| (Box::new(Gelu::op(nearly)) as Box<dyn Op>, x))
    }

    /// `x` of a GELU that ends with `node`, a product.
    fn gelu_of(&self, node: &TypedNode, nearly: bool, maker: &Makers) -> Option<TensorIndex> {
        let share = |tensor| self.share(tensor, nearly, maker);
        let half = |tensor| {
            let (of, number) = self.with_number(self.made_as("Mul", tensor, maker)?)?;
            (number == 0.5).then_some(of)
        };
        // (x * share) * 0.5
        if let Some((product, number)) = self.with_number(node) {
            let product = self.made_as("Mul", product, maker).filter(|_| number == 0.5)?;
            return self.product(product, share);
        }
        // x * (share * 0.5), (x * 0.5) * share
        self.product(node, |own| share(half(own)?)).or_else(|| {
            let &[a, b] = &node.inputs[..] else { return None };
            let fits = |x: TensorIndex, own| share(own).filter(|of| *of == x);
            let found = half(a).and_then(|x| fits(x, b));
            found.or_else(|| half(b).and_then(|x| fits(x, a)))
        })
    }

    /// `x` of `1 + erf(x / sqrt(2))`, or of the same with what is nearly that.
    fn share(&self, tensor: TensorIndex, nearly: bool, maker: &Makers) -> Option<TensorIndex> {
        let add = self.made_as("Add", tensor, maker)?;
        let (part, one) = self.with_number(add)?;
        if one != 1.0 {
            return None;
        }
        let part = self.made_as(if nearly { "Tanh" } else { "Erf" }, part, maker)?;
        let inner = self.made_by(part.inputs[0], maker)?;
        let (of, number) = self.with_number(inner)?;
        if nearly {
            let factor = (2.0 / std::f64::consts::PI).sqrt();
            let scales = is(inner, "Mul") && is_near(number, factor);
            return self.cubic(of, maker).filter(|_| scales);
        }
        let divides = is(inner, "Div") && inner.inputs[0] == of;
        let divides = divides && is_near(number, std::f64::consts::SQRT_2);
        let scales = is(inner, "Mul") && is_near(number, std::f64::consts::FRAC_1_SQRT_2);
        (divides || scales).then_some(of)
    }

    /// `x` of `x + 0.044715 * x^3`.
    fn cubic(&self, tensor: TensorIndex, maker: &Makers) -> Option<TensorIndex> {
        let add = self.made_as("Add", tensor, maker)?;
        let &[a, b] = &add.inputs[..] else { return None };
        let cube = |tensor| {
            let (cube, number) = self.with_number(self.made_as("Mul", tensor, maker)?)?;
            if !is_near(number, 0.044_715) {
                return None;
            }
            if let Some(power) = self.made_as("Pow", cube, maker) {
                return self.power(power, 3.0);
            }
            // x * (x * x)
            self.product(self.made_as("Mul", cube, maker)?, |own| {
                let square = self.made_as("Mul", own, maker)?;
                (square.inputs[0] == square.inputs[1]).then_some(square.inputs[0])
            })
        };
        cube(b).filter(|x| *x == a).or_else(|| cube(a).filter(|x| *x == b))
    }

    /// `x` of `x` to the power of a number.
    fn power(&self, node: &TypedNode, exponent: f32) -> Option<TensorIndex> {
        let (x, number) = self.with_number(node)?;
        (node.inputs[0] == x && number == exponent).then_some(x)
    }

    pub(super) fn layer_norm(
        &mut self,
        index: usize,
        maker: &Makers,
    ) -> Option<(Box<dyn Op>, Vec<TensorIndex>)> {
        let add = &self.nodes[index];
        add.op.as_any().downcast_ref::<Add>()?;
        let (scaled, offset) = self.with_values(add)?;
        let scale = self.made_as("Mul", scaled, maker)?;
        let (normed, scale) = self.with_values(scale)?;
        let (x, epsilon) = self.normed(self.made_as("Div", normed, maker)?, maker)?;
        let (shape, float) = (self.shape(x), self.tensors[x].info.dtype == npu::DataType::FLOAT);
        if !float || shape != self.shape(self.nodes[index].output()) {
            return None;
        }
        let name = self.nodes[index].name.clone();
        let lane = [scale.len()];
        let scale = self.add_floats(&format!("{name} scale"), &lane, &scale)?;
        let offset = self.add_floats(&format!("{name} offset"), &lane, &offset)?;
        let op = Norm::of_last_dim(shape.rank(), epsilon);
        Some((Box::new(op), vec![x, scale, offset]))
    }

    /// A tensor and a constant with one value for each element of its last dim.
    fn with_values(&self, node: &TypedNode) -> Option<(TensorIndex, Vec<f32>)> {
        let &[a, b] = &node.inputs[..] else { return None };
        let values = |own: TensorIndex, of: TensorIndex| {
            let (dims, shape) = (self.shape(own), self.shape(of));
            let lane = *shape.dims().last()?;
            let fits = dims.dims().last() == Some(&lane) && dims.elements() == lane;
            let fits = fits && dims.rank() <= shape.rank();
            self.constant_floats(own).filter(|_| fits).map(|values| (of, values))
        };
        values(b, a).or_else(|| values(a, b))
    }

    /// `x` and epsilon of `d / sqrt(mean(d^2) + epsilon)`, where `d` is `x - mean(x)`.
    fn normed(&self, node: &TypedNode, maker: &Makers) -> Option<(TensorIndex, f32)> {
        let &[d, deviation] = &node.inputs[..] else { return None };
        let x = self.centred(d, maker)?;
        let root = self.made_as("Sqrt", deviation, maker)?;
        let (variance, epsilon) =
            self.with_number(self.made_as("Add", root.inputs[0], maker)?)?;
        let square = self.made_by(self.mean(variance, maker)?, maker)?;
        let same = if is(square, "Pow") {
            self.power(square, 2.0)?
        } else {
            let twice = is(square, "Mul") && square.inputs[0] == square.inputs[1];
            twice.then(|| square.inputs[0])?
        };
        (same == d || self.centred(same, maker) == Some(x)).then_some((x, epsilon))
    }

    /// `x` of `x - mean(x)`.
    fn centred(&self, tensor: TensorIndex, maker: &Makers) -> Option<TensorIndex> {
        let minus = self.made_as("Sub", tensor, maker)?;
        let x = *minus.inputs.first()?;
        let mean = other_of_two(&minus.inputs, x)?;
        (self.mean(mean, maker) == Some(x)).then_some(x)
    }

    /// What this is the mean of, over the last dim, which is kept.
    fn mean(&self, tensor: TensorIndex, maker: &Makers) -> Option<TensorIndex> {
        let mean = self.made_as("ReduceMean", tensor, maker)?;
        let x = *mean.inputs.first()?;
        let (of, to) = (self.shape(x), self.shape(tensor));
        let (lane, others) = of.dims().split_last()?;
        let (one, same) = to.dims().split_last()?;
        (*lane > 1 && *one == 1 && others == same).then_some(x)
    }
}
