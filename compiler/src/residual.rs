//! Sums with what a convolution in blocks makes become part of it, with the function of one element
//! that follows, if nobody else reads what lies between. The convolution then stands where the sum
//! stood, so that the other summand is there.

use npu::ops::Activation;
use npu::ops::add::Add;
use npu::ops::blocked::BlockedConv;

use crate::typed::Typed;

impl Typed {
    /// Takes sums into convolutions.
    pub(crate) fn add_residuals(&mut self) {
        let readers = self.readers();
        let mut maker = vec![None; self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|output| maker[*output] = Some(index));
        }
        let mut gone = vec![false; self.nodes.len()];
        for sum in 0..self.nodes.len() {
            let Some((conv, mut own, other)) = self.summand(sum, &maker, &readers, &gone) else {
                continue;
            };
            let mut inputs = self.nodes[conv].inputs.clone();
            inputs.push(other);
            let name = self.nodes[conv].name.clone();
            gone[conv] = true;
            let made = self.nodes[conv].output();
            self.story.takes(made, self.nodes[sum].output(), "a sum with its result");
            if let Some(next) = self.only_reader(self.nodes[sum].output(), &readers)
                && let Some(activation) = self.nodes[next].op.activation()
            {
                own.activation = activation;
                gone[next] = true;
                self.story.takes(made, self.nodes[next].output(), "its function");
                self.nodes[sum].outputs = self.nodes[next].outputs.clone();
            }
            let node = &mut self.nodes[sum];
            (node.name, node.op, node.inputs) = (name, Box::new(own), inputs);
            maker[node.outputs[0]] = Some(sum);
        }
        let mut gone = gone.into_iter();
        self.nodes.retain(|_| !gone.next().unwrap_or(false));
    }

    /// The convolution that makes a summand of two, and the other summand.
    fn summand(
        &self,
        sum: usize,
        maker: &[Option<usize>],
        readers: &[Vec<usize>],
        gone: &[bool],
    ) -> Option<(usize, BlockedConv, usize)> {
        let node = &self.nodes[sum];
        node.op.as_any().downcast_ref::<Add>().filter(|_| !gone[sum])?;
        let &[a, b] = &node.inputs[..] else { return None };
        // Of two, the later one: the other was made before it, most likely long ago.
        let own = |tensor: usize, other: usize| {
            let conv = maker[tensor].filter(|conv| !gone[*conv])?;
            let op = *self.nodes[conv].op.as_any().downcast_ref::<BlockedConv>()?;
            let free = op.activation == Activation::None && self.nodes[conv].inputs.len() == 3;
            let alone = self.only_reader(tensor, readers) == Some(sum);
            let same = self.shape(tensor) == self.shape(other);
            (free && alone && same && a != b).then_some((conv, op, other))
        };
        let later = maker[a] > maker[b];
        let (first, second) = if later { ((a, b), (b, a)) } else { ((b, a), (a, b)) };
        own(first.0, first.1).or_else(|| own(second.0, second.1))
    }
}

#[cfg(test)]
mod tests;
