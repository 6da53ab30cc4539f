//! Chains: ops on elements of one shape of floats, each the only reader of what the one before it
//! makes, become one task. It stands where the last of them stood, when all operands are there.

use std::collections::BTreeSet;

use npu::DataType;
use npu::ops::BY_PLACE_MAX;
use npu::ops::blocked::{Chain, STEPS_MAX, Source, Step};
use npu::tensor::TensorInfo;

use crate::typed::{TensorIndex, Typed, TypedNode};

impl Typed {
    /// Joins ops into chains.
    pub(crate) fn chain(&mut self) {
        let readers = self.readers();
        let mut nodes: Vec<Option<TypedNode>> =
            std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
        let mut joined = vec![false; nodes.len()];
        for first in 0..nodes.len() {
            let links = self.links(first, &nodes, &joined, &readers);
            if let [_, .., last] = links[..] {
                let parts = links.iter().filter_map(|link| nodes[*link].take()).collect();
                nodes[last] = self.join(parts);
                joined[last] = true;
            }
        }
        self.nodes = nodes.into_iter().flatten().collect();
    }

    /// A node and those that follow it, as far as they can be one task.
    fn links(
        &self,
        first: usize,
        nodes: &[Option<TypedNode>],
        joined: &[bool],
        readers: &[Vec<usize>],
    ) -> Vec<usize> {
        let (mut links, mut operands) = (Vec::new(), BTreeSet::new());
        let (mut next, mut before) = (Some(first), None);
        while let Some(index) = next.filter(|index| !joined[*index]) {
            let Some(node) = nodes[index].as_ref().filter(|node| self.is_link(node)) else { break };
            let same = |before: TensorIndex| self.info(node.output()) == self.info(before);
            let others = node.inputs.iter().filter(|input| Some(**input) != before);
            let all: BTreeSet<TensorIndex> = operands.iter().chain(others).copied().collect();
            if !before.is_none_or(same) || all.len() > BY_PLACE_MAX || links.len() == STEPS_MAX {
                break;
            }
            operands = all;
            links.push(index);
            before = Some(node.output());
            // Who reads it twice is one reader.
            next = match &readers[node.output()][..] {
                [reader, others @ ..] if others.iter().all(|other| other == reader) => {
                    Some(*reader)
                }
                _ => None,
            };
            next = next.filter(|reader| *reader < nodes.len());
        }
        links
    }

    fn info(&self, tensor: TensorIndex) -> TensorInfo {
        self.tensors[tensor].info
    }

    /// Whether a node can be a step.
    fn is_link(&self, node: &TypedNode) -> bool {
        let float = |tensor: &TensorIndex| self.info(*tensor).dtype == DataType::FLOAT;
        let (inputs, output) = (&node.inputs, self.info(node.output()));
        let infos: Vec<TensorInfo> = inputs.iter().map(|input| self.info(*input)).collect();
        (1..=2).contains(&inputs.len())
            && node.outputs.len() == 1
            && inputs.iter().chain(&node.outputs).all(float)
            && output.shape.elements() > 0
            && node.op.is_pointwise()
            && node.op.scratch_bytes(&infos, &output) == 0
    }

    /// The task of some nodes.
    fn join(&mut self, nodes: Vec<TypedNode>) -> Option<TypedNode> {
        let (mut operands, mut steps) = (Vec::new(), Vec::new());
        let (mut before, mut own) = (None, None);
        for node in nodes {
            let source = |input: &TensorIndex| {
                if before == Some(*input) {
                    return Source::Before;
                }
                let at = operands.iter().position(|operand| operand == input);
                Source::Operand(at.unwrap_or_else(|| {
                    operands.push(*input);
                    operands.len() - 1
                }))
            };
            let sources = node.inputs.iter().map(source).collect();
            before = Some(node.output());
            match &own {
                None => own = Some((node.name.clone(), node.output())),
                Some((_, made)) => self.story.takes(*made, node.output(), "a step after it"),
            }
            steps.push(Step { op: node.op, sources });
        }
        let ((name, _), output, chain) = (own?, before?, Chain::new(steps)?);
        Some(TypedNode { name, op: Box::new(chain), inputs: operands, outputs: vec![output] })
    }
}

#[cfg(test)]
mod tests;
