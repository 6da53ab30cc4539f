//! Attention, as exporters spell it out, becomes one task: a product of queries and keys, factors
//! of it, a mask that is added, a softmax over the last dim, and the product with the values.
//! Factors of queries and keys, and transposes that bring heads in front of rows, are part of it.
//!
//! ```text
//! Q [N, S, H, D] ─Transpose─ (·c) ─┐
//! K [N, T, H, D] ─Transpose─ (·c) ─┴ MatMul ─ (·c) ─ (+ mask) ─ Softmax ─┐
//! V [N, T, H, E] ─Transpose─────────────────────────────────────────────┴ MatMul ─ Transpose
//! ```
//! Only if nobody else reads what lies between.

use npu::DataType;
use npu::ops::add::Add;
use npu::ops::arithmetic::Over;
use npu::ops::blocked::Attend;
use npu::ops::infer;
use npu::ops::mat_mul::MatMul;
use npu::ops::mul::Mul;
use npu::ops::pairwise::Pairwise;
use npu::ops::softmax::Softmax;
use npu::ops::transpose::Transpose;
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
}

/// What lies between the product of queries and keys and the softmax, or before the product.
#[derive(Default)]
struct Chain {
    scale: f32,
    mask: Option<TensorIndex>,
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
        for index in 0..self.nodes.len() {
            let Some(last) = self.shares_of(index, &ends) else { continue };
            match self.attention(index, last, &ends) {
                Ok(found) => self.replace(found, &mut gone),
                Err(why) => {
                    let softmax = self.nodes[index].output();
                    self.story.tell(softmax, format!("no attention in one task: {why}"));
                }
            }
        }
        let mut gone = gone.into_iter();
        self.nodes.retain(|_| !gone.next().unwrap_or(false));
    }

    fn replace(&mut self, found: Found, gone: &mut [bool]) {
        let made = self.nodes[found.node].output();
        self.story.tell(made, "attention: no product of all queries and keys is written");
        for taken in found.taken {
            gone[taken] = true;
            self.story.takes(made, self.nodes[taken].output(), "its attention");
        }
        let node = &mut self.nodes[found.node];
        node.op = Box::new(found.op);
        node.inputs = found.inputs;
        node.outputs = vec![found.output];
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
        let op = Attend { scale: chain.scale, by_row, keys_turned };
        let inputs: Vec<TensorIndex> = [q, k, v].into_iter().chain(chain.mask).collect();
        let infos: Vec<TensorInfo> = inputs.iter().map(|input| self.tensors[*input].info).collect();
        chain.taken.retain(|taken| *taken != last);
        let made = infer(&op, &infos).map_err(|error| error.to_string())?;
        if made.first() != Some(&self.tensors[output].info) {
            return Err("the result has another shape".to_owned());
        }
        Ok(Found { op, inputs, node: last, output, taken: chain.taken })
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
                if chain.mask.replace(mask).is_some() || chain.scale != 1.0 {
                    return Err(format!("behind `{}` there is a factor or a sum", node.name));
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

    /// Products and a mask that a node adds to them.
    fn masked(&self, node: &TypedNode, ends: &Ends) -> Option<(TensorIndex, TensorIndex)> {
        let &[a, b] = &node.inputs[..] else { return None };
        let numpy = matches!(
            node.op.as_any().downcast_ref::<Add>()?.broadcast,
            npu::ops::Broadcast::Numpy | npu::ops::Broadcast::Equal
        );
        let whole = self.shape(node.output());
        let fits = |mut tensor: TensorIndex| {
            let fits = numpy && self.shape(tensor) == whole;
            while let Some(made) = self.maker(tensor, ends) {
                match self.scaled(&self.nodes[made]) {
                    Some((of, _)) => tensor = of,
                    None => return fits && is_product(&self.nodes[made]),
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
