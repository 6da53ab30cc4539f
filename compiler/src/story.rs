//! What became of each node of the model, told by the passes while they work: `dflow compile
//! --explain`.
//!
//! A node is known by the first tensor that it makes. Passes put other tensors in the place of some
//! and let one node take in others; so a tensor stands for another one, and a node's task is found
//! by what stands for its tensor.

use std::collections::BTreeMap;

use crate::typed::TensorIndex;

/// What became of a node of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The node's name, or its number and what it makes.
    pub node: String,
    /// Its op, as the model names it and as it was translated.
    pub op: String,
    /// In words: which task, or what else, and why.
    pub what: String,
}

/// What is told so far.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// First tensor, name and op of each node, in the order of the model.
    nodes: Vec<(TensorIndex, String, String)>,
    index_of: BTreeMap<TensorIndex, usize>,
    stands_for: BTreeMap<TensorIndex, TensorIndex>,
    told: BTreeMap<TensorIndex, Vec<String>>,
    /// What follows a node and was not taken in at first, and what to say if it never is.
    behind: BTreeMap<TensorIndex, (TensorIndex, String)>,
}

impl Story {
    /// A node of the model.
    pub(crate) fn begin(&mut self, tensor: TensorIndex, node: &str, op: String) {
        self.index_of.insert(tensor, self.nodes.len());
        self.nodes.push((tensor, node.to_owned(), op));
    }

    /// The tensor of the model that another one stands for.
    fn origin(&self, mut tensor: TensorIndex) -> TensorIndex {
        while let Some(own) = self.stands_for.get(&tensor) {
            tensor = *own;
        }
        tensor
    }

    /// `new` is what `old` was.
    pub(crate) fn stands_for(&mut self, new: TensorIndex, old: TensorIndex) {
        let old = self.origin(old);
        if new != old {
            self.stands_for.insert(new, old);
        }
    }

    /// Something about the node that makes a tensor.
    pub(crate) fn tell(&mut self, tensor: TensorIndex, what: impl Into<String>) {
        self.tell_of(self.origin(tensor), what.into());
    }

    fn tell_of(&mut self, tensor: TensorIndex, what: String) {
        let told = self.told.entry(tensor).or_default();
        if !told.contains(&what) {
            told.push(what);
        }
    }

    /// The node that makes `tensor` has not taken in the one that makes `next`.
    pub(crate) fn tell_behind(&mut self, tensor: TensorIndex, next: TensorIndex, what: String) {
        self.behind.insert(self.origin(tensor), (next, what));
    }

    /// The node that makes `by` takes in the one that makes `taken`.
    pub(crate) fn takes(&mut self, by: TensorIndex, taken: TensorIndex, what: &str) {
        let (by, taken) = (self.origin(by), self.origin(taken));
        let name = self.index_of.get(&by).map(|index| self.nodes[*index].1.trim_matches('`'));
        let name = name.unwrap_or("another node");
        self.tell_of(taken, format!("part of `{name}`: {what}"));
        self.stands_for(taken, by);
    }

    /// The end: `tasks` are the first tensors of all nodes that are left, with what they are.
    pub(crate) fn end(&self, tasks: &[(TensorIndex, String)]) -> Vec<Fate> {
        let mut of: BTreeMap<TensorIndex, &str> = BTreeMap::new();
        for (tensor, what) in tasks {
            of.entry(self.origin(*tensor)).or_insert(what);
        }
        let fate = |(tensor, node, op): &(TensorIndex, String, String)| {
            let task = of.get(tensor).map(|task| (*task).to_owned());
            let behind = self.behind.get(tensor);
            let behind = behind.filter(|(next, _)| self.origin(*next) != *tensor);
            let told = self.told.get(tensor).into_iter().flatten().cloned();
            let told = behind.map(|(_, what)| what.clone()).into_iter().chain(told);
            let what: Vec<String> = task.into_iter().chain(told).collect();
            Fate { node: node.trim_matches('`').to_owned(), op: op.clone(), what: what.join("; ") }
        };
        self.nodes.iter().map(fate).collect()
    }
}

#[cfg(test)]
mod tests;
