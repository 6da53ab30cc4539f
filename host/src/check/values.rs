//! Checks of each thing by itself: names, counts, ranges, shapes, files.

use std::collections::BTreeSet;
use std::path::Path;

use crate::error::{CheckError, Place, Problem, io_text};
use crate::graph::{Align, AlignTime, AttrValue, DType, FlowGraph, FlowNode, Named, Shape};

use super::instance_label;

/// Longest queue name, bytes (spec/device-runtime.md §2).
pub const MAX_QUEUE_NAME: usize = 127;
/// Longest name of a flow, a node or a port, bytes.
pub const MAX_NAME: usize = 128;
/// Most processes of one node.
pub const MAX_INSTANCES: u32 = 32;
/// Most input ports, and most output ports, of a node or of the graph.
pub const MAX_PORTS: usize = 32;
/// Deepest queue.
pub const MAX_DEPTH: u32 = 65_536;
/// Most dimensions of a shape (spec/executor-deployer.md §0.4).
const MAX_DIMS: usize = 32;
/// Most transactions open at a time.
const MAX_OPEN: u32 = 1 << 20;
/// Most ids that an aligner may have waiting.
const CACHE_MAX: u32 = executor_rt::node::align::CACHE_MAX;
/// Longest that one may wait, milliseconds.
const TIMEOUT_MAX_MS: u32 = executor_rt::node::align::TIMEOUT_MAX_MS;
/// Prefix of the runtime's own environment.
const RESERVED_ENV: &str = "DFLOW_";

pub(super) fn check(graph: &FlowGraph, errors: &mut Vec<CheckError>) {
    let place = graph.place();
    check_name(&place, "graph", &graph.name, errors);
    check_counts(graph, errors);
    check_named(&place, "graph input", &graph.inputs, errors);
    check_named(&place, "node", &graph.nodes, errors);
    check_named(&place, "graph output", &graph.outputs, errors);
    for (name, input) in graph.inputs.iter() {
        let place = place.clone().port(format!("graph input `{name}`"));
        check_depth(&place, input.depth, errors);
        check_message(&place, input.dtype, &input.shape, input.max_bytes, errors);
        if graph.nodes.get(name).is_some() {
            errors.push(CheckError::Duplicate(Problem::new(
                place,
                format!("a node is named `{name}` too"),
                "different names for graph inputs and nodes",
                "rename one of them",
            )));
        }
    }
    for (name, output) in graph.outputs.iter() {
        let place = place.clone().port(format!("graph output `{name}`"));
        check_depth(&place, output.depth, errors);
        check_queue_name(&place, &format!("host:{name}"), errors);
    }
    for (name, node) in graph.nodes.iter() {
        check_node(&place.clone().node(name), name, node, errors);
    }
    check_session(graph, errors);
}

fn check_counts(graph: &FlowGraph, errors: &mut Vec<CheckError>) {
    let place = graph.place();
    for (what, count) in
        [("graph inputs", graph.inputs.len()), ("graph outputs", graph.outputs.len())]
    {
        check_ports(&place, what, count, errors);
    }
    if graph.nodes.is_empty() {
        let (expected, hint) = ("at least one node", "add a node under `nodes`");
        errors.push(CheckError::PortCount(Problem::new(place, "no node", expected, hint)));
    }
}

fn check_ports(place: &Place, what: &str, count: usize, errors: &mut Vec<CheckError>) {
    if (1..=MAX_PORTS).contains(&count) {
        return;
    }
    let hint = if count == 0 { "add one" } else { "join several into one message" };
    errors.push(CheckError::PortCount(Problem::new(
        place.clone().port(what),
        format!("{count} {what}"),
        format!("1 to {MAX_PORTS} {what}"),
        hint,
    )));
}

fn check_node(place: &Place, name: &str, node: &FlowNode, errors: &mut Vec<CheckError>) {
    check_ports(place, "inputs", node.inputs.len(), errors);
    check_ports(place, "outputs", node.outputs.len(), errors);
    check_named(place, "input", &node.inputs, errors);
    check_named(place, "output", &node.outputs, errors);
    if !(1..=MAX_INSTANCES).contains(&node.instances) {
        errors.push(CheckError::Instances(Problem::new(
            place.clone(),
            format!("{} instances", node.instances),
            format!("1 to {MAX_INSTANCES}"),
            "change `instances`",
        )));
    }
    let label = instance_label(name, node.instances.saturating_sub(1), node.instances.max(1));
    for (port, input) in node.inputs.iter() {
        let place = place.clone().input(port);
        check_queue_name(&place, &format!("{label}:{port}"), errors);
        if let Some(depth) = input.depth {
            check_depth(&place, depth, errors);
        }
        if let Some(shape) = &input.shape {
            check_shape(&place, shape, errors);
        }
    }
    for (port, output) in node.outputs.iter() {
        let place = place.clone().output(port);
        check_message(&place, output.dtype, &output.shape, output.max_bytes, errors);
    }
    check_settings(place, node, errors);
}

fn check_settings(place: &Place, node: &FlowNode, errors: &mut Vec<CheckError>) {
    let mut refuse = |key: &str, found: String, expected: &str, hint: &str| {
        let place = place.clone().port(format!("`{key}`"));
        errors.push(CheckError::Setting(Problem::new(place, found, expected, hint)));
    };
    if node.model.is_none() {
        check_function(node, &mut refuse);
    }
    if let Some(align) = node.align {
        check_align(align, node.inputs.len(), &mut refuse);
    }
    if let Some(align) = &node.align_time {
        check_align_time(align, node.inputs.len(), &mut refuse);
        if node.align.is_some() {
            let expected = "inputs put together by id or by time";
            refuse("align_time", "`align`, too".to_owned(), expected, "remove one of the two");
        }
    }
    if node.redeliver && node.poison_limit == 0 {
        let hint = "raise it, or turn `redeliver` off";
        refuse("poison_limit", "0".to_owned(), "1 or more with `redeliver`", hint);
    }
    if node.redeliver && node.stateful {
        let found = "`redeliver` with `stateful`".to_owned();
        let expected = "one of the two: the death of a stateful function answers its open ids";
        refuse("redeliver", found, expected, "remove one of the two");
    }
    if node.holds > MAX_DEPTH {
        refuse("holds", node.holds.to_string(), "at most 65536", "lower it");
    }
    for (key, value) in [("stall_ms", node.stall_ms), ("init_timeout_ms", node.init_timeout_ms)] {
        if value == 0 {
            refuse(key, "0".to_owned(), "1 or more milliseconds", "raise it");
        }
    }
    if !node.cpu.is_empty() && node.cpu.len() != node.instances as usize {
        let found = format!("{} cores for {} instances", node.cpu.len(), node.instances);
        refuse("cpu", found, "one core an instance, or none", "list one core an instance");
    }
    check_environment(node, &mut refuse);
    for (key, value) in &node.attrs {
        if has_nul(key) || texts(value).any(has_nul) {
            let key = format!("attrs.{}", key.escape_debug());
            let found = "a text with a zero byte".to_owned();
            refuse(&key, found, "texts without zero bytes", "remove it");
        }
    }
}

fn check_align(align: Align, inputs: usize, refuse: &mut impl FnMut(&str, String, &str, &str)) {
    let Align { max_cache, timeout_ms, .. } = align;
    if !(1..=CACHE_MAX).contains(&max_cache) {
        let found = format!("`max_cache` {max_cache}");
        refuse("align", found, "1 to 1024 ids that wait", "correct it, or remove `align`");
    }
    check_joint("align", timeout_ms, inputs, refuse);
}

fn check_align_time(
    align: &AlignTime,
    inputs: usize,
    refuse: &mut impl FnMut(&str, String, &str, &str),
) {
    let count = align.offsets.len();
    if count != 0 && count != inputs {
        let found = format!("{count} `offsets` for {inputs} input(s)");
        refuse("align_time", found, "one of each input, or none", "list one of each input");
    }
    check_joint("align_time", align.timeout_ms, inputs, refuse);
}

fn check_joint(
    key: &str,
    timeout_ms: Option<u32>,
    inputs: usize,
    refuse: &mut impl FnMut(&str, String, &str, &str),
) {
    if let Some(ms) = timeout_ms.filter(|ms| !(1..=TIMEOUT_MAX_MS).contains(ms)) {
        let (found, hint) =
            (format!("`timeout_ms` {ms}"), "correct it; without it they wait for ever");
        refuse(key, found, "1 to 600000 milliseconds", hint);
    }
    if inputs < 2 {
        let found = format!("a node with {inputs} input(s)");
        refuse(key, found, "several inputs to put together", "remove it");
    }
}

fn check_function(node: &FlowNode, refuse: &mut impl FnMut(&str, String, &str, &str)) {
    if node.function.is_empty() || node.function.contains('\0') {
        let found = format!("{:?}", node.function);
        refuse("function", found, "a function name", "name a function of the library");
    }
    if node.library.as_os_str().is_empty() || has_nul(&node.library.to_string_lossy()) {
        let found = format!("{:?}", node.library);
        refuse("library", found, "a path without zero bytes", "name the library's file");
    }
    if let Some(project) = &node.project {
        let library = node.library.to_string_lossy();
        if !crate::build::is_library_name(&library) {
            let hint = "name the file that the project builds";
            refuse("library", format!("`{library}`"), "`lib<name>.so` without a folder", hint);
        }
        if project.as_os_str().is_empty() || has_nul(&project.to_string_lossy()) {
            let found = format!("{:?}", project.as_os_str());
            refuse("project", found, "a path without zero bytes", "name the project's folder");
        }
    }
}

fn check_environment(node: &FlowNode, refuse: &mut impl FnMut(&str, String, &str, &str)) {
    for (key, value) in &node.env {
        if key.is_empty() || key.contains(['=', '\0']) || key.starts_with(RESERVED_ENV) {
            let expected = "a name without `=` and zero bytes, not starting with DFLOW_ (the \
                            runtime's own)";
            let found = format!("`{}`", key.escape_debug());
            refuse("env", found, expected, "rename the variable");
        }
        if has_nul(value) {
            let key = format!("env.{}", key.escape_debug());
            let found = format!("{value:?}, which has a zero byte");
            refuse(&key, found, "a text without zero bytes", "remove it");
        }
    }
}

/// What programs take as text ends at a zero byte.
fn has_nul(text: &str) -> bool {
    text.contains('\0')
}

/// Texts in an attribute.
fn texts(value: &AttrValue) -> impl Iterator<Item = &str> {
    let (one, many): (_, &[String]) = match value {
        AttrValue::Text(text) => (Some(text.as_str()), &[]),
        AttrValue::File(path) => (path.to_str(), &[]),
        AttrValue::Texts(all) => (None, all),
        _ => (None, &[]),
    };
    one.into_iter().chain(many.iter().map(String::as_str))
}

fn check_session(graph: &FlowGraph, errors: &mut Vec<CheckError>) {
    let session = &graph.session;
    let mut refuse = |key: &str, found: String, expected: &str| {
        let place = graph.place().port(format!("session `{key}`"));
        let hint = format!("change `{key}`");
        errors.push(CheckError::Setting(Problem::new(place, found, expected, hint)));
    };
    if !(1..=MAX_OPEN).contains(&session.max_open) {
        refuse("max_open", session.max_open.to_string(), "1 to 1048576 open ids");
    }
    if session.deadline_ms == Some(0) {
        refuse("deadline_ms", "0".to_owned(), "1 or more milliseconds, or no key");
    }
}

fn check_named<V>(place: &Place, kind: &str, named: &Named<V>, errors: &mut Vec<CheckError>) {
    let mut seen = BTreeSet::new();
    for name in named.names() {
        check_name(place, kind, name, errors);
        if !seen.insert(name) {
            errors.push(CheckError::Duplicate(Problem::new(
                place.clone().port(format!("{kind} `{name}`")),
                format!("two of the name `{name}`"),
                "each name once",
                "rename one of them",
            )));
        }
    }
}

fn check_name(place: &Place, kind: &str, name: &str, errors: &mut Vec<CheckError>) {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.len() > MAX_NAME {
        let start: String = name.chars().take(20).collect();
        errors.push(CheckError::NameLength(Problem::new(
            place.clone().port(format!("{kind} `{}…`", start.escape_debug())),
            format!("a name of {} bytes", name.len()),
            format!("1 to {MAX_NAME} bytes"),
            "shorten it",
        )));
        return;
    }
    let reserved = kind == "node" && name == "host";
    if !name.is_empty() && name.chars().all(plain) && !reserved {
        return;
    }
    let expected = if reserved {
        "another name: `host` is the session's own".to_owned()
    } else {
        format!("1 to {MAX_NAME} letters, digits, `_` and `-`")
    };
    let name = name.escape_debug();
    let place = place.clone().port(format!("{kind} `{name}`"));
    let problem = Problem::new(place, format!("`{name}`"), expected, "rename it");
    errors.push(CheckError::Name(problem));
}

fn check_queue_name(place: &Place, name: &str, errors: &mut Vec<CheckError>) {
    if name.len() > MAX_QUEUE_NAME {
        errors.push(CheckError::NameLength(Problem::new(
            place.clone(),
            format!("the queue name `{name}` of {} bytes", name.len()),
            format!("at most {MAX_QUEUE_NAME} bytes"),
            "shorten the name of the node or of the port",
        )));
    }
}

fn check_depth(place: &Place, depth: u32, errors: &mut Vec<CheckError>) {
    if !(2..=MAX_DEPTH).contains(&depth) {
        errors.push(CheckError::Depth(Problem::new(
            place.clone(),
            format!("a depth of {depth}"),
            format!("2 to {MAX_DEPTH}"),
            "change `depth`",
        )));
    }
}

fn check_shape(place: &Place, shape: &Shape, errors: &mut Vec<CheckError>) -> bool {
    let fine = shape.0.len() <= MAX_DIMS && shape.0.iter().all(|dim| *dim >= -1);
    if !fine {
        errors.push(CheckError::BadShape(Problem::new(
            place.clone(),
            shape.to_string(),
            format!("at most {MAX_DIMS} dimensions, each -1 (open), 0 or more"),
            "correct `shape`",
        )));
    }
    fine
}

fn check_message(
    place: &Place,
    dtype: DType,
    shape: &Shape,
    max_bytes: Option<u64>,
    errors: &mut Vec<CheckError>,
) {
    if !check_shape(place, shape, errors) {
        return;
    }
    let open = shape.0.contains(&-1);
    let (found, expected, hint) = match (max_bytes, shape.payload_bytes(dtype)) {
        (None, None) if open => (
            format!("no `max_bytes` and the shape {shape}"),
            "`max_bytes`, because a dimension is open".to_owned(),
            "add `max_bytes`: the largest payload a message can have",
        ),
        (_, None) if !open => (
            format!("the shape {shape} of {dtype}"),
            "a payload that fits 64 bits".to_owned(),
            "correct `shape`",
        ),
        (Some(found), Some(needed)) if found < needed => (
            format!("`max_bytes` {found}"),
            format!("at least {needed} for {shape} of {dtype}"),
            "raise `max_bytes`, or leave it out",
        ),
        _ => return,
    };
    errors.push(CheckError::MaxBytes(Problem::new(place.clone(), found, expected, hint)));
}

pub(super) fn check_libraries(graph: &FlowGraph, errors: &mut Vec<CheckError>) {
    for (name, node) in graph.nodes.iter() {
        if node.model.is_some() {
            continue;
        }
        if let Some(project) = &node.project {
            check_project(graph, name, project, errors);
            continue;
        }
        let Some(found) = not_a_file(&graph.library_path(&node.library)) else { continue };
        errors.push(CheckError::Library(Problem::new(
            graph.place().node(name).port("`library`"),
            found,
            "a built library of user functions",
            "build it, or correct `library` (relative to the graph file)",
        )));
    }
}

/// Files that attributes name.
pub(super) fn check_files(graph: &FlowGraph, errors: &mut Vec<CheckError>) {
    let nodes = graph
        .nodes
        .iter()
        .flat_map(|(name, node)| node.attrs.iter().map(move |(key, value)| (name, key, value)));
    for (node, key, value) in nodes {
        let AttrValue::File(file) = value else { continue };
        let Some(found) = not_a_file(&graph.library_path(file)) else { continue };
        errors.push(CheckError::Setting(Problem::new(
            graph.place().node(node).port(format!("`attrs.{}`", key.escape_debug())),
            found,
            "a file that the function reads",
            "make it, or correct the path (relative to the graph file)",
        )));
    }
}

/// What is there instead of a file whose path an executor can be told; `None` where one is.
fn not_a_file(path: &Path) -> Option<String> {
    match path.metadata() {
        // The executor is told it in a message of texts.
        Ok(_) if path.to_str().is_none() => Some(format!("{path:?} is no UTF-8 text")),
        Ok(data) if data.is_file() => None,
        Ok(_) => Some(format!("{} is not a file", path.display())),
        Err(error) => Some(format!("{}: {}", path.display(), io_text(&error))),
    }
}

fn check_project(graph: &FlowGraph, node: &str, project: &Path, errors: &mut Vec<CheckError>) {
    let lists = graph.library_path(project).join("CMakeLists.txt");
    if lists.is_file() {
        return;
    }
    errors.push(CheckError::Project(Problem::new(
        graph.place().node(node).port("`project`"),
        format!("no {}", lists.display()),
        "the folder of a C++ project",
        "correct `project` (relative to the graph file)",
    )));
}
