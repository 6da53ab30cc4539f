//! Rewrites that change no result: copies of names go, what nobody reads goes, and outputs get
//! tensors of their own.

use npu::ops::arithmetic::{DIV, SUB};
use npu::ops::identity::Identity;
use npu::ops::{mul, pow};

use crate::typed::{TensorIndex, Typed, TypedNode};

impl Typed {
    /// The same function in fewer nodes.
    #[must_use]
    pub fn optimise(mut self) -> Self {
        self.bypass_identities();
        self.know_bounds();
        self.move_transposes();
        self.name_patterns();
        self.remove_unused();
        self.attend();
        self.untranspose();
        self.quantise();
        self.quantise_elements();
        self.fuse();
        self.dense();
        self.remove_unused();
        self.block();
        self.add_residuals();
        self.fewer_products();
        self.chain();
        self.own_outputs();
        self
    }

    /// Whether a node has the elements of its first input, or of its only one that is no number: it
    /// multiplies by 1, divides by 1, takes away 0 or has the power 1. What adds 0 makes 0 of -0.
    fn changes_nothing(&self, node: &TypedNode) -> Option<TensorIndex> {
        let (x, number) = self.with_number(node)?;
        let first = node.inputs[0] == x;
        let code = node.op.code();
        let nothing = match number {
            1.0 => {
                code == mul::ENTRY.code || first && (code == DIV.code || code == pow::ENTRY.code)
            }
            0.0 => code == SUB.code && first && number.is_sign_positive(),
            _ => false,
        };
        (nothing && self.tensors[x].info == self.tensors[node.output()].info).then_some(x)
    }

    /// Whoever reads a copy reads the original.
    fn bypass_identities(&mut self) {
        let mut original: Vec<TensorIndex> = (0..self.tensors.len()).collect();
        let same: Vec<_> = self.nodes.iter().map(|node| self.changes_nothing(node)).collect();
        let mut same = same.into_iter();
        self.nodes.retain_mut(|node| {
            let same = same.next().flatten().map(|own| original[own]);
            for input in &mut node.inputs {
                *input = original[*input];
            }
            let copy = node.op.as_any().is::<Identity>().then(|| node.inputs[0]);
            if let Some(own) = copy.or(same) {
                original[node.output()] = own;
                self.story.tell(node.output(), "a copy: whoever reads it reads the original");
            }
            copy.or(same).is_none()
        });
        for (_, output) in &mut self.outputs {
            *output = original[*output];
        }
    }

    /// Removes nodes whose results nobody reads.
    pub(crate) fn remove_unused(&mut self) {
        let mut read = vec![false; self.tensors.len()];
        for (_, output) in &self.outputs {
            read[*output] = true;
        }
        let mut keep = vec![false; self.nodes.len()];
        for (node, keep) in self.nodes.iter().zip(&mut keep).rev() {
            *keep = node.outputs.iter().any(|output| read[*output]);
            if *keep {
                node.inputs.iter().for_each(|input| read[*input] = true);
            } else {
                self.story.tell(node.output(), "nobody reads what it makes");
            }
        }
        let mut keep = keep.into_iter();
        self.nodes.retain(|_| keep.next().unwrap_or(true));
    }

    /// An output is written by a node, and by it alone: one that is a constant, an input or another
    /// output is copied.
    fn own_outputs(&mut self) {
        // Made by a node, and no output yet.
        let mut free = vec![false; self.tensors.len()];
        let made = self.nodes.iter().flat_map(|node| &node.outputs);
        made.for_each(|output| free[*output] = true);
        for index in 0..self.outputs.len() {
            let (name, tensor) = self.outputs[index].clone();
            if std::mem::take(&mut free[tensor]) {
                continue;
            }
            let output = self.add(&name, self.tensors[tensor].info, None);
            let (op, inputs) = (Box::new(Identity), vec![tensor]);
            let outputs = vec![output];
            self.nodes.push(TypedNode { name: name.clone(), op, inputs, outputs });
            self.outputs[index].1 = output;
        }
    }
}
