//! The flow: graph file → session, and every file through it.

use dflow::{
    CheckedFlow, DeployOptions, Event, Feed, FlowGraph, Limits, MonoTime, Named, Session, Tensor,
    graph_file,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Milliseconds without any event after which the flow counts as hanging.
const PATIENCE_MS: u64 = 60_000;

/// Reads and checks the graph at `path`, with room for a file of `largest` bytes; libraries that
/// lie in `DFLOW_UDF_DIR` or beside this program are taken from there.
///
/// # Errors
/// What is wrong with the graph file, or a missing library.
pub fn load(path: &Path, largest: usize) -> Result<CheckedFlow, String> {
    let mut graph = graph_file::read(path).map_err(|error| error.to_string())?;
    let largest = largest as u64;
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

/// Plans and starts the flow; with `timing` the time inside functions and models is measured.
///
/// # Errors
/// An impossible budget, a missing program, or an executor that does not become ready.
pub fn deploy(flow: CheckedFlow, timing: bool) -> Result<Session, String> {
    let plan = flow.plan(&Limits::of_machine()).map_err(|error| error.to_string())?;
    let options = DeployOptions { timing, ..DeployOptions::default() };
    plan.deploy(&options).map_err(|error| error.to_string())
}

/// What came of the files, and the time from the first feed to the last event.
#[derive(Debug)]
pub struct Run<T> {
    /// One a file.
    pub found: Vec<T>,
    /// From the first feed to the last event.
    pub took: Duration,
}

/// Sends files, as many at a time as the session takes, through a session of one input and one
/// output; `read` makes something of each event.
///
/// # Errors
/// The session ended or nothing came for a minute.
pub fn run<T: Send>(
    session: &Session,
    files: &[(&str, &[u8])],
    read: impl Fn(&Event) -> T,
) -> Result<Run<T>, String> {
    let first = session.counts().ledger.fed + 1;
    let start = Instant::now();
    let mut found: Vec<Option<T>> = files.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let feeder = scope.spawn(|| feed_all(session, files));
        for _ in files {
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
    let found: Option<Vec<T>> = found.into_iter().collect();
    Ok(Run { found: found.ok_or("an id had two events, another none")?, took })
}

fn feed_all(session: &Session, files: &[(&str, &[u8])]) -> Result<(), String> {
    files.iter().try_for_each(|(name, file)| {
        let feed = Feed::of(vec![Tensor::bytes(file.to_vec())]);
        let fed = session.feed(feed, wait());
        fed.map(|_| ()).map_err(|error| format!("feed of {name}: {error}"))
    })
}

fn wait() -> Option<MonoTime> {
    Some(MonoTime::now().add_ms(PATIENCE_MS))
}

/// Milliseconds from feed to fetch.
#[must_use]
pub fn millis(event: &Event) -> f64 {
    Duration::from_micros(event.micros).as_secs_f64() * 1e3
}

/// The bytes of an event's message, read by `read`; or in words why there are none.
///
/// # Errors
/// The code of the id with its node, a message without data, or what `read` says.
pub fn answer<T>(
    event: &Event,
    read: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, String> {
    match &event.outcome {
        Ok(output) if output.is_null() => Err("a message without data".to_owned()),
        Ok(output) => read(output.bytes()),
        Err(failure) => {
            let code = i32::try_from(failure.code.0).unwrap_or(i32::MAX);
            let node = failure.node.as_deref().unwrap_or("the flow");
            Err(format!("{node}: {} [{code}]", failure.reason))
        }
    }
}
