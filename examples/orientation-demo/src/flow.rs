//! The flow: graph file → session, and every page through it.

use crate::record;
use crate::set::Page;
use crate::verdict::Found;
use dflow::{
    CheckedFlow, Event, Feed, FlowGraph, Limits, MonoTime, Named, Session, Tensor, graph_file,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Milliseconds without any event after which the flow counts as hanging.
const PATIENCE_MS: u64 = 60_000;

/// What came of the pages.
#[derive(Debug)]
pub struct Run {
    /// One a page.
    pub found: Vec<Found>,
    /// From the first feed to the last event.
    pub took: Duration,
}

/// Reads and checks the graph at `path`, with room for the largest of `pages`; libraries that lie
/// in `DFLOW_UDF_DIR` or beside this program are taken from there.
///
/// # Errors
/// What is wrong with the graph file, or a missing library.
pub fn load(path: &Path, pages: &[Page]) -> Result<CheckedFlow, String> {
    let mut graph = graph_file::read(path).map_err(|error| error.to_string())?;
    let largest = pages.iter().map(|page| page.file.len() as u64).max().unwrap_or(0);
    graph.inputs = change(&graph.inputs, |input| {
        input.max_bytes = input.max_bytes.map(|bytes| bytes.max(largest));
    });
    if let Some(folder) = library_folder() {
        point_at(&mut graph, &folder);
    }
    graph.check().map_err(|error| error.to_string())
}

fn library_folder() -> Option<PathBuf> {
    match std::env::var_os("DFLOW_UDF_DIR") {
        Some(folder) => std::path::absolute(folder).ok(),
        None => std::env::current_exe().ok()?.parent().map(Path::to_path_buf),
    }
}

fn point_at(graph: &mut FlowGraph, folder: &Path) {
    graph.nodes = change(&graph.nodes, |node| {
        let built = node.library.file_name().map(|name| folder.join(name));
        if let Some(built) = built.filter(|built| built.is_file()) {
            node.library = built;
        }
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

/// Plans and starts the flow.
///
/// # Errors
/// An impossible budget, a missing program, or an executor that does not become ready.
pub fn deploy(flow: CheckedFlow) -> Result<Session, String> {
    let plan = flow.plan(&Limits::of_machine()).map_err(|error| error.to_string())?;
    plan.deploy(&dflow::DeployOptions::default()).map_err(|error| error.to_string())
}

/// Sends every page through a session of one output; a page that fails has its reason.
///
/// # Errors
/// The session ended or nothing came for a minute.
pub fn run(session: &Session, pages: &[Page]) -> Result<Run, String> {
    let first = session.counts().ledger.fed + 1;
    let start = Instant::now();
    let mut found: Vec<Option<Found>> = vec![None; pages.len()];
    std::thread::scope(|scope| {
        let feeder = scope.spawn(|| feed_all(session, pages));
        for _ in pages {
            let event = match session.fetch(wait()) {
                Ok(event) => event,
                Err(error) => {
                    let fed = feeder.join().unwrap_or_else(|_| Err("feeder panicked".to_owned()));
                    return Err(fed.err().unwrap_or_else(|| format!("fetch: {error}")));
                }
            };
            let index = usize::try_from(event.trans_id.saturating_sub(first)).ok();
            if let Some(place) = index.and_then(|index| found.get_mut(index)) {
                *place = Some(read(&event));
            }
        }
        Ok(())
    })?;
    let took = start.elapsed();
    let never = || Found { answer: Err("never answered".to_owned()), millis: 0.0 };
    let found = found.into_iter().map(|found| found.unwrap_or_else(never)).collect();
    Ok(Run { found, took })
}

fn feed_all(session: &Session, pages: &[Page]) -> Result<(), String> {
    pages.iter().try_for_each(|page| {
        let feed = Feed::of(vec![Tensor::bytes(page.file.clone())]);
        let fed = session.feed(feed, wait());
        fed.map(|_| ()).map_err(|error| format!("feed of {}: {error}", page.name))
    })
}

fn wait() -> Option<MonoTime> {
    Some(MonoTime::now().add_ms(PATIENCE_MS))
}

fn read(event: &Event) -> Found {
    let millis = Duration::from_micros(event.micros).as_secs_f64() * 1e3;
    let answer = match &event.outcome {
        Ok(output) if output.is_null() => Err("a message without data".to_owned()),
        Ok(output) => record::read(output.bytes()),
        Err(failure) => {
            let code = i32::try_from(failure.code.0).unwrap_or(i32::MAX);
            let node = failure.node.as_deref().unwrap_or("the flow");
            Err(format!("{node}: {} [{code}]", failure.reason))
        }
    };
    Found { answer, millis }
}
