//! Attention, as exporters spell it out, becomes one task: a product of queries and keys, factors
//! of it, a mask that is added, or a known condition where a number stands that is as good as
//! hidden, a softmax over the last dim, and the product with the values. Factors of queries and
//! keys, and transposes that bring heads in front of rows, are part of it.
//!
//! ```text
//! Q [N, S, H, D] ─Transpose─(·c)─┐
//! K [N, T, H, D] ─Transpose─(·c)─┴ MatMul ─(·c)─(Where)─(+ mask)─ Softmax ─┐
//! V [N, T, H, E] ─Transpose────────────────────────────────────────────────┴ MatMul ─ Transpose
//! ```
//! Only if nobody else reads what lies between.

use std::collections::BTreeMap;

use npu::DataType;
use npu::ops::add::Add;
use npu::ops::arithmetic::Over;
use npu::ops::blocked::Attend;
use npu::ops::mat_mul::MatMul;
use npu::ops::mul::Mul;
use npu::ops::pairwise::Pairwise;
use npu::ops::softmax::Softmax;
use npu::ops::transpose::Transpose;
use npu::ops::where_::Where;
use npu::ops::{Broadcast, Op, infer};
use npu::shape::Shape;
use npu::tensor::TensorInfo;

use crate::typed::{TensorIndex, Typed, TypedNode};

/// Heads and rows change places: it undoes itself.
const HEADS: [usize; 4] = [0, 2, 1, 3];
/// The same, and rows become columns.
const HEADS_TURNED: [usize; 4] = [0, 2, 3, 1];

/// Makers and readers of all tensors.
struct Ends {
    maker: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
}

/// One that is found.
struct Found {
    op: Attend,
    inputs: Vec<TensorIndex>,
    /// The node that it stands in the place of, and what it makes.
    node: usize,
    output: TensorIndex,
    /// The nodes that it takes in.
    taken: Vec<usize>,
    /// What is added to the mask, or is the mask.
    hidden: Option<Hidden>,
}

/// A mask that is known: zeros, and a number where a product is hidden.
#[derive(Clone, Debug)]
struct Hidden {
    shape: Shape,
    values: Vec<f32>,
    number: f32,
}

/// What lies between the product of queries and keys and the softmax, or before the product.
#[derive(Default)]
struct Chain {
    scale: f32,
    mask: Option<TensorIndex>,
    hidden: Option<Hidden>,
    taken: Vec<usize>,
}

fn is_product(node: &TypedNode) -> bool {
    node.op.as_any().is::<MatMul>()
}

impl Typed {
    /// Finds all.
    pub(crate) fn attend(&mut self) {
        let mut maker = vec![None; self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|output| maker[*output] = Some(index));
        }
        let ends = Ends { maker, readers: self.readers() };
        let mut gone = vec![false; self.nodes.len()];
        let mut masks = BTreeMap::new();
        for index in 0..self.nodes.len() {
            let Some(last) = self.shares_of(index, &ends) else { continue };
            match self.attention(index, last, &ends) {
                Ok(found) => {
                    let node = found.node;
                    masks.extend(self.replace(found, &mut gone).map(|mask| (node, mask)));
                }
                Err(why) => {
                    let softmax = self.nodes[index].output();
                    self.story.tell(softmax, format!("no attention in one task: {why}"));
                }
            }
        }
        let nodes = std::mem::take(&mut self.nodes).into_iter().zip(gone).enumerate();
        for (index, (node, gone)) in nodes {
            self.nodes.extend(masks.remove(&index));
            self.nodes.extend((!gone).then_some(node));
        }
    }

    /// Makes it the task that it is; the sum of two masks is one before it.
    fn replace(&mut self, mut found: Found, gone: &mut [bool]) -> Option<TypedNode> {
        let made = self.nodes[found.node].output();
        self.story.tell(made, "attention: no product of all queries and keys is written");
        for taken in found.taken {
            gone[taken] = true;
            self.story.takes(made, self.nodes[taken].output(), "its attention");
        }
        let name = format!("{} mask", self.nodes[found.node].name);
        let mut sum = None;
        if let Some(Hidden { shape, values, .. }) = &found.hidden {
            let known = self.add_floats(&name, shape.dims(), values)?;
            match found.inputs.get_mut(3) {
                None => found.inputs.push(known),
                Some(mask) => {
                    let inputs = vec![*mask, known];
                    let shape = self.shape(*mask).broadcast(shape)?;
                    let info = TensorInfo::new(DataType::FLOAT, shape);
                    *mask = self.add(&name, info, None);
                    let op: Box<dyn Op> = Box::new(Add::new(Broadcast::Numpy));
                    sum = Some(TypedNode { name, op, inputs, outputs: vec![*mask] });
                }
            }
        }
        let node = &mut self.nodes[found.node];
        node.op = Box::new(found.op);
        node.inputs = found.inputs;
        node.outputs = vec![found.output];
        sum
    }

    /// The product of a softmax with values, where there is a product before it, too.
    fn shares_of(&self, softmax: usize, ends: &Ends) -> Option<usize> {
        let node = &self.nodes[softmax];
        node.op.as_any().downcast_ref::<Softmax>()?;
        if !self.is_behind_product(node.inputs[0], ends, 5) {
            return None;
        }
        let product = |at: &&usize| {
            let next = self.nodes.get(**at);
            next.is_some_and(|next| is_product(next) && next.inputs[0] == node.output())
        };
        ends.readers[node.output()].iter().find(product).copied()
    }

    /// Whether a product is among the next nodes before a tensor.
    fn is_behind_product(&self, tensor: TensorIndex, ends: &Ends, steps: usize) -> bool {
        let Some(made) = self.maker(tensor, ends) else { return false };
        let node = &self.nodes[made];
        let mut inputs = node.inputs.iter().take(3);
        is_product(node)
            || steps > 0 && inputs.any(|input| self.is_behind_product(*input, ends, steps - 1))
    }

    fn maker(&self, tensor: TensorIndex, ends: &Ends) -> Option<usize> {
        ends.maker.get(tensor).copied().flatten()
    }

    /// The attention that ends with the product `last`, or why it is none.
    fn attention(&self, softmax: usize, last: usize, ends: &Ends) -> Result<Found, String> {
        let node = &self.nodes[softmax];
        let own = node.op.as_any().downcast_ref::<Softmax>();
        let rank = self.shape(node.output()).rank();
        if !own.is_some_and(|own| own.is_over_last_dim(rank)) {
            return Err("its sum is not over the last dim".to_owned());
        }
        if self.tensors[node.output()].info.dtype != DataType::FLOAT {
            return Err(format!("it is {}", self.tensors[node.output()].info));
        }
        self.alone(node.output(), ends)?;
        let mut chain = Chain { scale: 1.0, taken: vec![softmax], ..Chain::default() };
        let product = self.product_before(node.inputs[0], &mut chain, ends)?;
        let &[q, k] = &self.nodes[product].inputs[..] else { return Err("no product".to_owned()) };
        let (q, q_by_row) = self.heads(q, &mut chain, ends);
        let (k, k_by_row, keys_turned) = self.keys(k, &mut chain, ends);
        let v = self.nodes[last].inputs[1];
        // The product with the values stays, as the task of all.
        chain.taken.push(last);
        let (v, v_by_row) = self.turned(v, &mut chain, ends);
        let (output, out_by_row) = self.result(last, &mut chain, ends);
        let by_row = [q_by_row, k_by_row, v_by_row, out_by_row];
        let hides = chain.hidden.is_some();
        let op = Attend { scale: chain.scale, by_row, keys_turned, hides };
        let inputs: Vec<TensorIndex> = [q, k, v].into_iter().chain(chain.mask).collect();
        let mut infos: Vec<TensorInfo> =
            inputs.iter().map(|input| self.tensors[*input].info).collect();
        if let Some(hidden) = &chain.hidden {
            let own = TensorInfo::new(DataType::FLOAT, hidden.shape);
            let before = infos
                .drain(3..)
                .next()
                .map_or(Some(own.shape), |mask| mask.shape.broadcast(&own.shape));
            let shape = before.ok_or("its two masks do not broadcast")?;
            infos.push(TensorInfo { shape, ..own });
        }
        chain.taken.retain(|taken| *taken != last);
        let made = infer(&op, &infos).map_err(|error| error.to_string())?;
        if made.first() != Some(&self.tensors[output].info) {
            return Err("the result has another shape".to_owned());
        }
        let Chain { taken, hidden, .. } = chain;
        Ok(Found { op, inputs, node: last, output, taken, hidden })
    }

    /// Nobody reads a tensor but the node that the pattern has there.
    fn alone(&self, tensor: TensorIndex, ends: &Ends) -> Result<(), String> {
        match self.only_reader(tensor, &ends.readers) {
            Some(_) => Ok(()),
            None => {
                let name = &self.tensors[tensor].name;
                Err(format!("`{name}` is read {} times", ends.readers[tensor].len()))
            }
        }
    }

    /// The product of queries and keys that a tensor is, but for factors and a mask.
    fn product_before(
        &self,
        mut tensor: TensorIndex,
        chain: &mut Chain,
        ends: &Ends,
    ) -> Result<usize, String> {
        loop {
            self.alone(tensor, ends)?;
            let made = self.maker(tensor, ends).ok_or("there is no product before it")?;
            chain.taken.push(made);
            let node = &self.nodes[made];
            if is_product(node) {
                return Ok(made);
            }
            if let Some((of, factor)) = self.scaled(node) {
                (tensor, chain.scale) = (of, chain.scale * factor);
            } else if node.op.as_any().is::<Add>() {
                let (of, mask) = self.masked(node, ends).ok_or_else(|| {
                    format!("`{}` adds no mask that broadcasts to the products", node.name)
                })?;
                let finite = chain.hidden.as_ref().is_some_and(|own| own.number.is_finite());
                if chain.mask.replace(mask).is_some() || chain.scale != 1.0 || finite {
                    return Err(format!("behind `{}` there is a factor or a sum", node.name));
                }
                tensor = of;
            } else if let Some((of, hidden)) = self.hidden(node) {
                if chain.hidden.replace(hidden).is_some() || chain.scale != 1.0 {
                    return Err(format!("behind `{}` there is a factor, or another", node.name));
                }
                tensor = of;
            } else {
                return Err(format!("`{}` ({:?}) lies before it", node.name, node.op));
            }
        }
    }

    /// What a node multiplies with a number, and the number.
    fn scaled(&self, node: &TypedNode) -> Option<(TensorIndex, f32)> {
        let (of, number) = self.with_number(node)?;
        let op = node.op.as_any();
        if op.is::<Mul>() {
            return Some((of, number));
        }
        (op.is::<Pairwise<Over>>() && node.inputs[0] == of).then(|| (of, number.recip()))
    }

    /// What a node replaces by a number where a known condition says so.
    fn hidden(&self, node: &TypedNode) -> Option<(TensorIndex, Hidden)> {
        node.op.as_any().downcast_ref::<Where>()?;
        let &[condition, a, b] = &node.inputs[..] else { return None };
        let whole = self.shape(node.output());
        let fits = |of: TensorIndex, other: TensorIndex| {
            let number = self.number(other).filter(|own| *own < Attend::HIDDEN)?;
            (self.shape(of) == whole).then_some((of, number))
        };
        let (of, number, hides) = match (fits(a, b), fits(b, a)) {
            (Some((of, number)), _) => (of, number, false),
            (_, Some((of, number))) => (of, number, true),
            _ => return None,
        };
        let known = &self.tensors[condition];
        let values = known.value.as_ref()?.iter();
        let values = values.map(|own| if (*own != 0) == hides { number } else { 0.0 }).collect();
        Some((of, Hidden { shape: known.info.shape, values, number }))
    }

    /// Products and a mask that a node adds to them.
    fn masked(&self, node: &TypedNode, ends: &Ends) -> Option<(TensorIndex, TensorIndex)> {
        let &[a, b] = &node.inputs[..] else { return None };
        let numpy = matches!(
            node.op.as_any().downcast_ref::<Add>()?.broadcast,
            Broadcast::Numpy | Broadcast::Equal
        );
        let whole = self.shape(node.output());
        let fits = |mut tensor: TensorIndex| {
            let fits = numpy && self.shape(tensor) == whole;
            while let Some(made) = self.maker(tensor, ends) {
                let node = &self.nodes[made];
                let hidden = || self.hidden(node).map(|(of, _)| of);
                match self.scaled(node).map(|(of, _)| of).or_else(hidden) {
                    Some(of) => tensor = of,
                    None => return fits && is_product(node),
                }
            }
            false
        };
        match (fits(a), fits(b)) {
            (true, _) => Some((a, b)),
            (_, true) => Some((b, a)),
            _ => None,
        }
    }

    /// What a tensor is made of by a transpose in one of these orders, and in which.
    fn turned_from(
        &self,
        tensor: TensorIndex,
        ends: &Ends,
        orders: &[&[usize]],
    ) -> Option<(usize, usize)> {
        let made = self.maker(tensor, ends)?;
        let own = self.nodes[made].op.as_any().downcast_ref::<Transpose>()?;
        let order = orders.iter().position(|order| own.order() == *order)?;
        Some((made, order))
    }

    /// Notes a node that only the pattern reads.
    fn take(&self, node: usize, chain: &mut Chain, ends: &Ends) {
        let reader = self.only_reader(self.nodes[node].output(), &ends.readers);
        if reader.is_some_and(|reader| chain.taken.contains(&reader)) {
            chain.taken.push(node);
        }
    }

    /// Without factors, which become those of the products.
    fn unscaled(&self, mut tensor: TensorIndex, chain: &mut Chain, ends: &Ends) -> TensorIndex {
        while let Some(made) = self.maker(tensor, ends)
            && let Some((of, factor)) = self.scaled(&self.nodes[made])
        {
            self.take(made, chain, ends);
            (tensor, chain.scale) = (of, chain.scale * factor);
        }
        tensor
    }

    /// Without a transpose that brings heads in front of rows; whether there was one.
    fn turned(&self, tensor: TensorIndex, chain: &mut Chain, ends: &Ends) -> (TensorIndex, bool) {
        match self.turned_from(tensor, ends, &[&HEADS]) {
            Some((made, _)) => {
                self.take(made, chain, ends);
                (self.nodes[made].inputs[0], true)
            }
            None => (tensor, false),
        }
    }

    /// Without factors and such a transpose.
    fn heads(&self, tensor: TensorIndex, chain: &mut Chain, ends: &Ends) -> (TensorIndex, bool) {
        let tensor = self.unscaled(tensor, chain, ends);
        let (tensor, by_row) = self.turned(tensor, chain, ends);
        (self.unscaled(tensor, chain, ends), by_row)
    }

    /// The keys; whether their heads are behind their rows, and whether they stay columns.
    fn keys(
        &self,
        tensor: TensorIndex,
        chain: &mut Chain,
        ends: &Ends,
    ) -> (TensorIndex, bool, bool) {
        let tensor = self.unscaled(tensor, chain, ends);
        let mut order: Vec<usize> = (0..self.shape(tensor).rank()).collect();
        if let [.., a, b] = &mut order[..] {
            std::mem::swap(a, b);
        }
        match self.turned_from(tensor, ends, &[&HEADS_TURNED, &order]) {
            None => (tensor, false, true),
            Some((made, order)) => {
                self.take(made, chain, ends);
                let from = self.nodes[made].inputs[0];
                if order == 0 {
                    return (self.unscaled(from, chain, ends), true, false);
                }
                let (keys, by_row) = self.heads(from, chain, ends);
                (keys, by_row, false)
            }
        }
    }

    /// What the product makes, or a transpose behind it that alone reads it; whether there is one.
    fn result(&self, last: usize, chain: &mut Chain, ends: &Ends) -> (TensorIndex, bool) {
        let made = self.nodes[last].output();
        let next = self.only_reader(made, &ends.readers).filter(|next| {
            let own = self.nodes[*next].op.as_any().downcast_ref::<Transpose>();
            own.is_some_and(|own| own.order() == HEADS)
        });
        let Some(next) = next else { return (made, false) };
        chain.taken.push(next);
        (self.nodes[next].output(), true)
    }
}

#[cfg(test)]
mod tests;
