//! The lines of `dflow run`: one a terminal event, and the files of `--out`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use executor_core::error::Code;
use indicatif::ProgressBar;

use super::inputs::Item;
use super::{Failure, interrupt, write_out};
use crate::graph::Shape;
use crate::plan::DeployPlan;
use crate::session::{Event, Output};

/// The feeder names an id right after it was fed; an event can be a moment faster.
const NAME_WAIT: Duration = Duration::from_secs(10);

/// What an id was made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    name: String,
    stem: String,
}

impl Known {
    /// The files of `item`.
    pub(super) fn of(item: &Item) -> Known {
        Known { name: item.name(), stem: item.file_stem() }
    }
}

/// What was printed.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Lines with data.
    pub(super) data: u64,
    /// Payload bytes of them.
    pub(super) bytes: u64,
    /// Lines with an error.
    pub(super) errors: u64,
    /// Nobody reads stdout any more.
    pub(super) unread: bool,
    /// Printing or writing files failed.
    pub(super) failure: Option<Failure>,
}

/// Prints events; shared by the feeding and the fetching thread.
#[derive(Debug)]
pub(super) struct Report {
    outputs: Vec<String>,
    folder: Option<PathBuf>,
    bar: ProgressBar,
    ids: Mutex<HashMap<u64, (Known, usize)>>,
    named: Condvar,
    counts: Mutex<Counts>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Report {
    /// A report of a flow's outputs; with `folder`, their bytes are written there.
    pub(super) fn new(plan: &DeployPlan, folder: Option<PathBuf>, bar: ProgressBar) -> Report {
        Report {
            outputs: plan.host.outputs.iter().map(|output| output.name.clone()).collect(),
            folder,
            bar,
            ids: Mutex::default(),
            named: Condvar::new(),
            counts: Mutex::default(),
        }
    }

    /// Ends the report.
    pub(super) fn counts(&self) -> Counts {
        std::mem::take(&mut *lock(&self.counts))
    }

    /// An id was fed.
    pub(super) fn fed(&self, id: u64, known: Known) {
        lock(&self.ids).insert(id, (known, self.outputs.len()));
        self.named.notify_all();
    }

    /// A feed could not be made.
    pub(super) fn not_fed(&self, item: &Item, reason: &str) {
        lock(&self.counts).errors += 1;
        self.bar.inc(self.outputs.len() as u64);
        let code = code_text(Code::PARAM_INVALID);
        self.line(&format!("{}\t-\terror {code}\t-\t{}\n", item.name(), one_line(reason)));
    }

    /// A terminal event.
    pub(super) fn event(&self, event: &Event) {
        let known = self.known(event.trans_id);
        let output = self.outputs.get(event.port).map_or("?", String::as_str);
        let line = match &event.outcome {
            Ok(data) => {
                self.keep(event, &known, output, data);
                let mut counts = lock(&self.counts);
                counts.data += 1;
                counts.bytes += data.bytes().len() as u64;
                drop(counts);
                let ms = event.micros as f64 / 1000.0;
                let (kind, bytes) = (kind(data), data.bytes().len());
                format!("{}\t{output}\t{kind}\t{bytes}\t{ms:.3}\n", known.name)
            }
            Err(failure) => {
                lock(&self.counts).errors += 1;
                let node = failure.node.as_deref();
                let node = node.map_or("-".to_owned(), |node| format!("node {node}"));
                let (code, reason) = (code_text(failure.code), one_line(&failure.reason));
                format!("{}\t{output}\terror {code}\t{node}\t{reason}\n", known.name)
            }
        };
        self.bar.inc(1);
        self.line(&line);
    }

    /// Name of an id; forgotten after its last event.
    fn known(&self, id: u64) -> Known {
        let ids = lock(&self.ids);
        let waited = self.named.wait_timeout_while(ids, NAME_WAIT, |ids| !ids.contains_key(&id));
        let mut ids = waited.unwrap_or_else(PoisonError::into_inner).0;
        let Some((known, left)) = ids.get_mut(&id) else {
            return Known { name: format!("id {id}"), stem: format!("id-{id}") };
        };
        let known = known.clone();
        *left -= 1;
        if *left == 0 {
            ids.remove(&id);
        }
        known
    }

    fn keep(&self, event: &Event, known: &Known, output: &str, data: &Output) {
        let Some(folder) = &self.folder else { return };
        let path = folder.join(format!("{:06}-{}.{output}", event.trans_id, known.stem));
        if let Err(error) = std::fs::write(&path, data.bytes()) {
            self.fail(Failure::System(format!("can't write {}: {error}", path.display())));
        }
    }

    fn line(&self, line: &str) {
        match self.bar.suspend(|| write_out(line)) {
            Ok(true) => {}
            Ok(false) => {
                lock(&self.counts).unread = true;
                interrupt::ask();
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// Stops; the first failure is told.
    fn fail(&self, failure: Failure) {
        lock(&self.counts).failure.get_or_insert(failure);
        interrupt::ask();
    }
}

fn kind(data: &Output) -> String {
    if data.is_null() {
        return "nothing".to_owned();
    }
    let dtype = data.data_type();
    let name = dtype.name().map_or_else(|| format!("dtype {}", dtype.0), str::to_owned);
    format!("{name}{}", Shape(data.shape().to_vec()))
}

/// `14614530 (NO_OUTPUT)`; a function's own code has no name.
pub(super) fn code_text(code: Code) -> String {
    let number = code.to_ret_code();
    code.name().map_or_else(|| number.to_string(), |name| format!("{number} ({name})"))
}

fn one_line(text: &str) -> String {
    text.split(['\n', '\t', '\r']).map(str::trim).collect::<Vec<_>>().join(" ")
}

/// A file name made of a label: nothing that leads out of the folder.
pub(super) fn file_in(folder: &Path, label: &str, ending: &str) -> PathBuf {
    folder.join(format!("{}{ending}", label.replace(['/', '\0'], "_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_reasons_are_one_field() {
        assert_eq!(code_text(Code::NO_OUTPUT), "14614530 (NO_OUTPUT)");
        assert_eq!(code_text(Code(7)), "7");
        assert_eq!(one_line("a:\n  b\tc"), "a: b c");
        assert_eq!(file_in(Path::new("d"), "a/b@1", ".log"), Path::new("d/a_b@1.log"));
    }
}
