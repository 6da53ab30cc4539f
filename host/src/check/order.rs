//! The order in which messages come, and joins whose branches would not come in one order.
//!
//! A node with several inputs takes one message from each, so all its branches must carry the same
//! ids in the same order, unless it aligns them by id, or by time: then its outputs have the ids of
//! its first input, in that order. Order is followed through the graph as a
//! small algebra:
//!
//! * a graph input comes in the order of feeding;
//! * the outputs of a node with several instances are *spread*: in order per instance only;
//! * one instance that consumes a spread stream, or aligns its inputs, fixes an order of its own
//!   (*merged* there), one behind an overwrite queue a selection of its own (*sampled* there), any
//!   other keeps the order;
//! * so two branches that part after such a node still agree, and meet again safely.

use crate::error::{CheckError, Problem};
use crate::graph::QueuePolicy;

use super::{CheckedFlow, Source, Target};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Fed,
    Spread(usize),
    Merged(usize),
    Sampled(usize),
}

pub(super) fn check(flow: &CheckedFlow, errors: &mut Vec<CheckError>) {
    let graph = flow.graph();
    let mut orders = vec![Order::Fed; graph.nodes.len()];
    for node in flow.order().iter().copied() {
        let item = graph.nodes.item(node);
        let arriving: Vec<Order> = (0..item.inputs.len())
            .map(|input| match flow.source(Target::Node { node, input }) {
                Source::Input(_) => Order::Fed,
                Source::Node { node, .. } => orders[node],
            })
            .collect();
        if arriving.len() > 1 && item.align.is_none() && item.align_time.is_none() {
            check_join(flow, node, &arriving, errors);
        }
        let overwrite = item.inputs.iter().any(|(_, port)| port.policy == QueuePolicy::Overwrite);
        orders[node] = match arriving.first().copied().unwrap_or(Order::Fed) {
            _ if item.instances > 1 => Order::Spread(node),
            _ if item.align.is_some() => Order::Merged(node),
            _ if overwrite => Order::Sampled(node),
            Order::Spread(_) => Order::Merged(node),
            order => order,
        };
    }
}

fn check_join(flow: &CheckedFlow, node: usize, arriving: &[Order], errors: &mut Vec<CheckError>) {
    let graph = flow.graph();
    let item = graph.nodes.item(node);
    let name = |node: usize| graph.nodes.name(node);
    for (input, order) in arriving.iter().enumerate() {
        let (port, settings) = (item.inputs.name(input), item.inputs.item(input));
        let place = graph.place().node(name(node)).input(port);
        let own = settings.policy == QueuePolicy::Overwrite;
        match order {
            _ if own => errors.push(overwrite(place, "its own queue overwrites".to_owned())),
            Order::Sampled(at) if arriving.iter().any(|other| other != order) => {
                let why = format!("the overwrite queue in front of `{}`", name(*at));
                errors.push(overwrite(place, why));
            }
            Order::Spread(at) => errors.push(reordered(place, name(*at), graph, *at)),
            Order::Merged(at) if arriving.iter().any(|other| other != order) => {
                let cause = spread_before(flow, *at);
                errors.push(reordered(place, name(cause), graph, cause));
            }
            _ => {}
        }
    }
}

/// The node with several instances whose messages were merged at `node`.
fn spread_before(flow: &CheckedFlow, node: usize) -> usize {
    let nodes = &flow.graph().nodes;
    let producers = flow.sources[node].iter().filter_map(|source| match source {
        Source::Node { node, .. } => Some(*node),
        Source::Input(_) => None,
    });
    let mut spread = producers.filter(|producer| nodes.item(*producer).instances > 1);
    spread.next().unwrap_or(node)
}

fn overwrite(place: crate::error::Place, why: String) -> CheckError {
    CheckError::OverwriteJoin(Problem::new(
        place,
        format!("{why}, so ids can be missing on this branch only"),
        "branches that carry the same ids",
        "use `policy: fifo` from the parting of the branches to the join, or `align` with a time",
    ))
}

fn reordered(
    place: crate::error::Place,
    cause: &str,
    graph: &crate::graph::FlowGraph,
    node: usize,
) -> CheckError {
    let item = graph.nodes.item(node);
    let instances = item.instances;
    let (found, hint) = if instances == 1 && item.align.is_some() {
        let found =
            format!("`{cause}` aligns its inputs, so its messages have an order of their own");
        (found, "set `align` of this node, too".to_owned())
    } else {
        let found =
            format!("`{cause}` has {instances} instances, so its messages can overtake each other");
        let way = "set `align` of this node";
        (
            found,
            format!("{way}, or give `{cause}` one instance, or split and join on one side of it"),
        )
    };
    let expected = "branches in one order, or a node that aligns its inputs";
    CheckError::Alignment(Problem::new(place, found, expected, hint))
}
