//! Where a block can be: the places that messages of one source reach by forwarding.
//!
//! A function may set an input message as its output, so a block of an upstream partition can sit
//! in every queue downstream of it and in the hands of every worker there. Which output it is set
//! as is not known, so every output of a reached node counts. A node with `writable_inputs: copy`
//! or `forwarding: copy` forwards its own copies, a model writes messages of its own: there the
//! walk ends.

use crate::check::{CheckedFlow, Source, Target};
use crate::graph::{Align, Forwarding, WritableInputs};

use super::Term;
use super::budget::WORKER_BLOCKS;

/// Places a message of one producer can be in, as terms of a budget.
///
/// `lanes_direct` is the number of lanes the producer has in each queue right behind it: one, its
/// own. Further down, the lanes of all producers of a queue can fill with its blocks.
pub(super) fn places(flow: &CheckedFlow, source: Source) -> Vec<Term> {
    let mut terms = Vec::new();
    for target in flow.targets(source) {
        for reached in downstream(flow, target) {
            let lanes = if reached == target { 1 } else { producers(flow, reached) };
            add_place(flow, reached, lanes, &mut terms);
        }
    }
    terms
}

/// The same for the blocks a node copies its inputs into: it forwards them on every output.
pub(super) fn places_of_copies(flow: &CheckedFlow, node: usize) -> Vec<Term> {
    let outputs = flow.graph().nodes.item(node).outputs.len();
    let places = (0..outputs).map(|output| places(flow, Source::Node { node, output }));
    unique(places.flatten().collect())
}

/// `target` and everything behind it that a message can be forwarded to.
fn downstream(flow: &CheckedFlow, target: Target) -> Vec<Target> {
    let mut reached = vec![target];
    let mut next = 0;
    while let Some(target) = reached.get(next).copied() {
        next += 1;
        let Target::Node { node, .. } = target else { continue };
        let item = flow.graph().nodes.item(node);
        let shares =
            item.writable_inputs == WritableInputs::Share && item.forwarding == Forwarding::Share;
        if !shares || item.model.is_some() {
            continue;
        }
        for output in 0..item.outputs.len() {
            for behind in flow.targets(Source::Node { node, output }) {
                if !reached.contains(&behind) {
                    reached.push(behind);
                }
            }
        }
    }
    reached
}

fn producers(flow: &CheckedFlow, target: Target) -> u64 {
    match flow.source(target) {
        Source::Input(_) => 1,
        Source::Node { node, .. } => u64::from(flow.graph().nodes.item(node).instances),
    }
}

fn add_place(flow: &CheckedFlow, target: Target, lanes: u64, terms: &mut Vec<Term>) {
    let (name, queues, holds) = match target {
        Target::Node { node, .. } => {
            let item = flow.graph().nodes.item(node);
            (flow.target_name(target), u64::from(item.instances), u64::from(item.holds))
        }
        Target::Output(output) => {
            (flow.target_name(target), 1, u64::from(flow.graph().outputs.item(output).holds))
        }
    };
    let aligned = match target {
        Target::Node { node, .. } => flow.graph().nodes.item(node).align,
        Target::Output(_) => None,
    };
    let depth = u64::from(flow.depth(target));
    let mut add = |what: String, count: u64| {
        if count > 0 {
            terms.push(Term { what, count });
        }
    };
    add(
        format!("queue {name}: {queues} x depth {depth} x {lanes} lane(s)"),
        queues.saturating_mul(depth).saturating_mul(lanes),
    );
    add(format!("in hand at {name}: {queues} worker(s) x {WORKER_BLOCKS}"), queues * WORKER_BLOCKS);
    add(format!("held at {name}: {queues} x {holds}"), queues.saturating_mul(holds));
    if let Some(Align { max_cache, .. }) = aligned {
        let cached = u64::from(max_cache) + 1;
        add(format!("aligner at {name}: {queues} x ({max_cache} + 1)"), queues * cached);
    }
}

/// A block is in one place at a time, so a place counts once however many ways lead there.
pub(super) fn unique(terms: Vec<Term>) -> Vec<Term> {
    let mut once: Vec<Term> = Vec::new();
    for term in terms {
        if !once.contains(&term) {
            once.push(term);
        }
    }
    once
}
