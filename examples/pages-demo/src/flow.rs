//! The graph: read, pointed at the built library, buffers as large as the pages at hand need.

use crate::input::{Page, pixels};
use dflow::{AttrValue, CheckedFlow, DeployOptions, FlowGraph, Limits, Named, Session, graph_file};
use std::path::{Path, PathBuf};

/// Most pixels of a page, however much memory there is.
pub(crate) const PIXELS_MAX: u64 = 24_000_000;

/// Attribute of `decode` that bounds what it accepts.
const MAX_PIXELS: &str = "max_pixels";

/// Reads and checks the graph at `path`, with room for every one of `pages`.
///
/// # Errors
/// What is wrong with the graph file, or a missing library.
pub(crate) fn load(path: &Path, pages: &[Page]) -> Result<CheckedFlow, String> {
    let mut graph = graph_file::read(path).map_err(|error| error.to_string())?;
    if let Some(folder) = library_folder(&graph) {
        graph.nodes = change(&graph.nodes, |node| {
            node.library = folder.join(node.library.file_name().unwrap_or_default());
        });
    }
    fit(&mut graph, pages);
    graph.check().map_err(|error| error.to_string())
}

/// `DFLOW_UDF_DIR`, or this program's folder when the libraries lie beside it.
fn library_folder(graph: &FlowGraph) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("DFLOW_UDF_DIR") {
        return std::path::absolute(folder).ok();
    }
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    let mut nodes = graph.nodes.iter();
    let has_all = nodes.all(|(_, node)| {
        node.library.file_name().is_some_and(|library| folder.join(library).is_file())
    });
    has_all.then(|| folder.to_path_buf())
}

/// Raises the graph's sizes to what the largest file and the largest picture need.
fn fit(graph: &mut FlowGraph, pages: &[Page]) {
    let file = pages.iter().map(|page| page.file.len() as u64).max().unwrap_or(0);
    let sides = pages.iter().filter_map(|page| pixels(&page.file));
    let most = sides.filter(|pixels| *pixels <= PIXELS_MAX).max().unwrap_or(0);
    graph.inputs = change(&graph.inputs, |input| {
        input.max_bytes = input.max_bytes.map(|bytes| bytes.max(file));
    });
    graph.nodes = change(&graph.nodes, |node| {
        if let Some(AttrValue::Int(limit)) = node.attrs.get_mut(MAX_PIXELS) {
            *limit = (*limit).max(i64::try_from(most).unwrap_or(i64::MAX));
        }
        // Pictures are uint8 [h, w]; a page's trailer is one row more, of at most 1/16
        // (pages::page).
        node.outputs = change(&node.outputs, |output| {
            if output.shape.0.len() == 2 {
                output.max_bytes = output.max_bytes.map(|bytes| bytes.max(most + most / 16));
            }
        });
    });
}

fn change<V: Clone>(all: &Named<V>, mut edit: impl FnMut(&mut V)) -> Named<V> {
    let mut changed = Named::default();
    for (name, item) in all.iter() {
        let mut item = item.clone();
        edit(&mut item);
        changed.push(name, item);
    }
    changed
}

/// Plans and starts the flow, with the time inside functions measured.
///
/// # Errors
/// An impossible budget, a missing program, or an executor that does not become ready.
pub(crate) fn deploy(flow: CheckedFlow) -> Result<Session, String> {
    let plan = flow.plan(&Limits::of_machine()).map_err(|error| error.to_string())?;
    let options = DeployOptions { timing: true, ..DeployOptions::default() };
    plan.deploy(&options).map_err(|error| error.to_string())
}

/// The chain in words, such as `file → decode → deskew ×2 → row`.
pub(crate) fn chain_text(flow: &CheckedFlow) -> String {
    let graph = flow.graph();
    let nodes = flow.order().iter().map(|index| {
        let (name, count) = (graph.nodes.name(*index), graph.nodes.item(*index).instances);
        if count > 1 { format!("{name} ×{count}") } else { name.to_owned() }
    });
    let inputs = graph.inputs.names().map(str::to_owned);
    let outputs = graph.outputs.names().map(str::to_owned);
    inputs.chain(nodes).chain(outputs).collect::<Vec<_>>().join(" → ")
}
