//! The page-orientation flow of the examples: pages in four rotations through a function in Rust, a
//! model on its device and a function in C++. Results have to equal those of an undisturbed run.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use dflow::{
    CheckedFlow, Feed, FlowNode, MonoTime, Named, Restart, RestartPolicy, Session, Tensor,
    graph_file,
};

use super::busy;
use super::{Config, Events, Subject, left};

/// The graph, from the root of the repository.
const GRAPH: &str = "examples/graphs/orientation.yaml";
/// The library of its function in Rust.
const LIBRARY: &str = "liborientation.so";
/// The program that turns pages.
const TURNS: &str = "orientation-demo";
/// Where the examples are built when nobody says otherwise, from the root of the repository.
const BUILT: &str = "examples/target/udf";
/// What the undisturbed run answered, beside the pages.
const RECORDS: &str = "records.bin";
/// Bytes of the answer to one page: class, confidence and label.
const RECORD: usize = 32;
/// Fewest pages that are told apart by their answers.
const PAGES_MIN: usize = 36;
/// What builds everything that is looked for here.
const BUILD: &str = "`cargo xtask figures fault` builds and fetches it";

/// Pages and what is known of them.
#[derive(Clone, Debug)]
pub struct Pages {
    folder: PathBuf,
    files: Vec<Vec<u8>>,
    /// The answers of the undisturbed run, one a page.
    records: Vec<[u8; RECORD]>,
}

impl Pages {
    /// Turns the pages of the cache, writes them into a new folder, and runs them undisturbed.
    ///
    /// # Errors
    /// What is not built or not fetched; a page that is not answered.
    pub fn make(folder: &Path) -> Result<Pages, String> {
        let model = find("the model", &graph_model()?)?;
        let program = find_built(TURNS)?;
        find_built(LIBRARY)?;
        let pages = std::env::var_os("DFLOW_PAGES_DIR").map(PathBuf::from);
        let pages = find("pages", &pages.unwrap_or_else(|| root().join(".cache/pages")))?;
        let mut turns = Command::new(&program);
        turns.args(["--pages", "0", "--write"]).args([folder, &pages]);
        let turned = turns.output().map_err(|error| format!("{}: {error}", program.display()))?;
        if !turned.status.success() {
            let said = String::from_utf8_lossy(&turned.stderr);
            return Err(format!("{}: {}\n{said}", program.display(), turned.status));
        }
        let mut made = Pages { folder: folder.to_owned(), files: read(folder)?, records: vec![] };
        made.records = made.undisturbed()?;
        let distinct: HashSet<&[u8; RECORD]> = made.records.iter().collect();
        if distinct.len() < PAGES_MIN {
            let (found, model) = (distinct.len(), model.display());
            return Err(format!(
                "{model}: {found} different answers to {} pages, expected at least {PAGES_MIN}: \
                 results could not be told apart",
                made.files.len()
            ));
        }
        let path = folder.join(RECORDS);
        std::fs::write(&path, made.records.as_flattened())
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(made)
    }

    /// What [`Pages::make`] left in a folder.
    ///
    /// # Errors
    /// It is not such a folder.
    pub fn open(folder: &Path) -> Result<Pages, String> {
        let path = folder.join(RECORDS);
        let records = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let (records, _) = records.as_chunks::<RECORD>();
        Ok(Pages { folder: folder.to_owned(), files: read(folder)?, records: records.to_vec() })
    }

    /// The same pages with wrong answers: the oracle has to object to every result.
    #[must_use]
    pub fn with_wrong_answers(&self) -> Pages {
        let mut wrong = self.clone();
        wrong.records.rotate_left(1);
        wrong
    }

    fn index(&self, id: u64) -> usize {
        usize::try_from(id % self.files.len().max(1) as u64).unwrap_or(0)
    }

    /// The answers to all pages while nothing is killed.
    fn undisturbed(&self) -> Result<Vec<[u8; RECORD]>, String> {
        let config = Config::of(self, 0, self.files.len() as u64, Events::default());
        let session = busy::try_deploy(&config, &left::new_tag(0))?.session;
        let records = self.answers(&session, config.patience_ms);
        session.close();
        records
    }

    fn answers(&self, session: &Session, patience_ms: u32) -> Result<Vec<[u8; RECORD]>, String> {
        let watchdog = || Some(MonoTime::now().add_ms(u64::from(patience_ms)));
        let mut records = vec![[0; RECORD]; self.files.len()];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (1..=self.files.len() as u64).try_for_each(|id| {
                    session.feed(Feed::of(vec![self.message(id)]), watchdog()).map(|_| ())
                })
            });
            for _ in &self.files {
                let event = session.fetch(watchdog()).map_err(|error| error.to_string())?;
                let id = event.trans_id;
                let output = event.outcome.map_err(|failure| {
                    format!("page {id}, undisturbed: {} ({})", failure.reason, failure.code)
                })?;
                let found = output.bytes();
                records[self.index(id)] = found.try_into().map_err(|_| {
                    format!("page {id}: {} bytes, expected a record of {RECORD}", found.len())
                })?;
            }
            Ok(records)
        })
    }
}

impl Subject for Pages {
    fn name(&self) -> &'static str {
        "orientation"
    }

    fn flow(&self) -> Result<CheckedFlow, String> {
        let path = root().join(GRAPH);
        let mut graph = graph_file::read(&path).map_err(|error| error.to_string())?;
        let built = find_built(LIBRARY)?;
        let mut nodes = Named::default();
        for (name, node) in graph.nodes.iter() {
            let mut node: FlowNode = node.clone();
            if node.library.file_name() == built.file_name() {
                node.library.clone_from(&built);
            }
            node.restart =
                Restart { policy: RestartPolicy::OnFailure, max: 1_000_000, backoff_ms: 1 };
            nodes.push(name, node);
        }
        graph.nodes = nodes;
        graph.check().map_err(|refused| refused.to_string())
    }

    fn message(&self, id: u64) -> Tensor {
        Tensor::bytes(self.files[self.index(id)].clone())
    }

    fn is_result(&self, id: u64, bytes: &[u8]) -> bool {
        self.records.get(self.index(id)).is_some_and(|record| record == bytes)
    }

    fn outputs(&self) -> u32 {
        1
    }

    fn rhythm_us(&self) -> u64 {
        40_000
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }
}

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The file of the graph's model.
fn graph_model() -> Result<PathBuf, String> {
    let graph = graph_file::read(&root().join(GRAPH)).map_err(|error| error.to_string())?;
    let model = graph.nodes.iter().find_map(|(_, node)| node.model.as_deref());
    let model = model.ok_or_else(|| format!("{GRAPH}: no node with a model"))?;
    Ok(graph.library_path(model))
}

fn find(what: &str, path: &Path) -> Result<PathBuf, String> {
    if path.exists() {
        return Ok(path.to_owned());
    }
    Err(format!("{what}: no {}; {BUILD}, or `cargo xtask test setup`", path.display()))
}

/// A file of the examples: in `DFLOW_UDF_DIR`, or where they are built.
fn find_built(name: &str) -> Result<PathBuf, String> {
    let told = std::env::var_os("DFLOW_UDF_DIR").map(PathBuf::from);
    let places: Vec<PathBuf> = told.into_iter().chain([root().join(BUILT)]).collect();
    let found = places.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    found.map(|path| std::path::absolute(&path).unwrap_or(path)).ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|dir| dir.display().to_string()).collect();
        let places = places.join(", ");
        format!("no {name} in {places}; {BUILD}, or `cd examples && cargo build --profile udf`")
    })
}

/// The pages of a folder, by name.
fn read(folder: &Path) -> Result<Vec<Vec<u8>>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(wrong)?;
    let paths: Result<Vec<PathBuf>, _> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(wrong)?;
    paths.retain(|path| !path.ends_with(RECORDS));
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).map_err(wrong)).collect()
}
