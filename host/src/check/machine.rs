//! What a graph asks of the machine it is to run on: cores.

use crate::error::{CheckError, Place, Problem};
use crate::graph::FlowGraph;

/// Refuses cores on which this process, and so its children, may not run.
pub(super) fn check(graph: &FlowGraph, errors: &mut Vec<CheckError>) {
    // A machine that does not tell is left to the supervisor.
    let allowed = sys::affinity::allowed().unwrap_or_default();
    for (name, node) in graph.nodes.iter() {
        let problem = cores(graph.place().node(name), &node.cpu, &allowed);
        errors.extend(problem.map(CheckError::Setting));
    }
}

/// What is wrong with the cores of the node at `place`, where only the `allowed` ones can be used;
/// nothing is known where none is.
pub(crate) fn cores(place: Place, cores: &[u32], allowed: &[usize]) -> Option<Box<Problem>> {
    let outside = cores
        .iter()
        .filter(|core| usize::try_from(**core).map_or(true, |core| !allowed.contains(&core)));
    let outside: Vec<String> = outside.map(|core| format!("core {core}")).collect();
    if outside.is_empty() || allowed.is_empty() {
        return None;
    }
    Some(Problem::new(
        place.port("`cpu`"),
        outside.join(", "),
        format!("cores that this process may use: {}", ranges(allowed)),
        "choose among them (`taskset -cp $$` shows a shell's), or remove `cpu`",
    ))
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

    #[test]
    fn cores_outside_the_allowed_set_are_named_with_it() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        for (list, found) in [
            (&[0, 3][..], None),
            (&[], None),
            (&[4], Some("core 4")),
            (&[0, 9, u32::MAX], Some("core 9, core 4294967295")),
        ] {
            let place = Place::graph("g").node("a");
            assert_eq!(cores(place.clone(), list, &[]), None);
            let problem = cores(place, list, &[0, 1, 3]);
            assert_eq!(problem.as_ref().map(|problem| problem.found.as_str()), found);
            if let Some(problem) = problem {
                assert_eq!(problem.place.node.as_deref(), Some("a"));
                assert!(problem.expected.ends_with("0-1, 3"), "{}", problem.expected);
            }
        }
    }
}
