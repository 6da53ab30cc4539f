//! What a graph asks of the machine it is to run on: cores.

use crate::error::{CheckError, Problem};
use crate::graph::FlowGraph;

/// Refuses cores on which this process, and so its children, may not run.
pub(super) fn check(graph: &FlowGraph, errors: &mut Vec<CheckError>) {
    // A machine that does not tell is left to the supervisor.
    if let Ok(allowed) = sys::affinity::allowed() {
        check_cores(graph, &allowed, errors);
    }
}

fn check_cores(graph: &FlowGraph, allowed: &[usize], errors: &mut Vec<CheckError>) {
    for (name, node) in graph.nodes.iter() {
        let outside = node
            .cpu
            .iter()
            .filter(|core| usize::try_from(**core).map_or(true, |core| !allowed.contains(&core)));
        let outside: Vec<String> = outside.map(|core| format!("core {core}")).collect();
        if !outside.is_empty() {
            errors.push(CheckError::Setting(Problem::new(
                graph.place().node(name).port("`cpu`"),
                outside.join(", "),
                format!("cores that this process may use: {}", ranges(allowed)),
                "choose among them (`taskset -cp $$` shows a shell's), or remove `cpu`",
            )));
        }
    }
}

/// `0-3, 8`.
fn ranges(cores: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for core in cores.iter().copied() {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => runs.push((core, core)),
        }
    }
    let text = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::FlowNode;

    #[test]
    fn cores_outside_the_allowed_set_are_named_with_it() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        let graph = |cores: &[u32]| {
            FlowGraph::new("g").node("a", FlowNode::udf("l", "f").cpu(cores.to_vec()))
        };
        for (cores, found) in [
            (&[0, 3][..], None),
            (&[4], Some("core 4")),
            (&[0, 9, u32::MAX], Some("core 9, core 4294967295")),
        ] {
            let mut errors = Vec::new();
            check_cores(&graph(cores), &[0, 1, 3], &mut errors);
            let problem = errors.first().map(CheckError::problem);
            assert_eq!(problem.map(|problem| problem.found.as_str()), found);
            if let Some(problem) = problem {
                assert_eq!(problem.place.node.as_deref(), Some("a"));
                assert!(problem.expected.ends_with("0-1, 3"), "{}", problem.expected);
            }
        }
    }
}
