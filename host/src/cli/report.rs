//! The lines of `dflow run`: one a terminal event, and the files of `--out`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use executor_core::error::Code;
use indicatif::ProgressBar;
use sys::clock::MonoTime;
use sys::errno::Errno;
use sys::poll::{Events, PollFd, poll};

use super::inputs::Item;
use super::{Failure, interrupt, values, write_out};
use crate::error::io_text;
use crate::graph::Shape;
use crate::plan::DeployPlan;
use crate::session::{Event, Output};

/// The feeder names an id right after it was fed; an event can be a moment faster.
const NAME_WAIT: Duration = Duration::from_secs(10);

/// An interrupt is looked for this often while stdout takes nothing.
const LOOK_MS: u64 = 100;
/// After an interrupt, stdout's reader is waited for this long.
const GRACE_MS: u64 = 1_000;

/// What an id was made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    name: String,
    stem: String,
}

impl Known {
    /// The files of `item`.
    pub(super) fn of(item: &Item) -> Known {
        Known { name: one_line(&item.name()), stem: stem(&item.file_stem()) }
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
    /// Those of them for what could not be fed.
    pub(super) not_fed: u64,
    /// Nobody reads stdout any more.
    pub(super) unread: bool,
    /// Lines that stdout's reader did not take after an interrupt.
    pub(super) unwritten: u64,
    /// Printing or writing files failed.
    pub(super) failure: Option<Failure>,
}

/// Prints events; shared by the feeding and the fetching thread.
#[derive(Debug)]
pub(super) struct Report {
    outputs: Vec<String>,
    folder: Option<PathBuf>,
    values: usize,
    bar: ProgressBar,
    ids: Mutex<HashMap<u64, (Known, usize)>>,
    named: Condvar,
    counts: Mutex<Counts>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Report {
    /// A report of a flow's outputs: `values` of each are shown, and with `folder`, their bytes are
    /// written there.
    pub(super) fn new(
        plan: &DeployPlan,
        folder: Option<PathBuf>,
        values: usize,
        bar: ProgressBar,
    ) -> Report {
        Report {
            outputs: plan.host.outputs.iter().map(|output| output.name.clone()).collect(),
            folder,
            values,
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
    pub(super) fn not_fed(&self, item: &Item, code: Code, reason: &str) {
        let mut counts = lock(&self.counts);
        counts.errors += 1;
        counts.not_fed += 1;
        drop(counts);
        self.bar.inc(self.outputs.len() as u64);
        let code = code_text(code);
        let (name, reason) = (one_line(&item.name()), one_line(reason));
        self.line(&format!("{name}\t-\terror {code}\t-\t{reason}\n"));
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
                let shown = values::first(data, self.values);
                format!("{}\t{output}\t{kind}\t{bytes}\t{ms:.3}{shown}\n", known.name)
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
            let what = format!("can't write {}", path.display());
            let hint = "make room in the folder, or name another one with --out";
            self.fail(Failure::system(&what, &io_text(&error), "a file that can be written", hint));
        }
    }

    fn line(&self, line: &str) {
        // Not while the bar is held: what is said on stderr must not wait for stdout's reader.
        if !self.wait_for_reader() {
            lock(&self.counts).unwritten += 1;
            return;
        }
        match self.bar.suspend(|| write_out(line)) {
            Ok(true) => {}
            Ok(false) => {
                lock(&self.counts).unread = true;
                interrupt::ask();
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// Waits until stdout takes a line. After an interrupt not for long: whoever reads it may never
    /// go on.
    fn wait_for_reader(&self) -> bool {
        let mut last = None;
        loop {
            let now = MonoTime::now();
            let given_up = lock(&self.counts).unwritten > 0;
            let until = if given_up { now } else { now.add_ms(LOOK_MS) };
            let stdout = std::io::stdout();
            match poll(&mut [PollFd::new(&stdout, Events::OUT)], Some(until)) {
                Ok(0) => {}
                Err(error) if error.errno == Errno::INTR => {}
                // Whatever else is wrong with it, writing tells.
                _ => return true,
            }
            if given_up
                || interrupt::asked() && last.get_or_insert(now.add_ms(GRACE_MS)).is_past(now)
            {
                return false;
            }
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

/// As much of a file's name as leaves room for what is put around it.
fn stem(name: &str) -> String {
    const STEM_BYTES: usize = 100;
    name.get(..name.floor_char_boundary(STEM_BYTES)).unwrap_or(name).to_owned()
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
        assert_eq!(stem(&"µ".repeat(200)).len(), 100);
        assert_eq!(stem("a.png"), "a.png");
        assert_eq!(file_in(Path::new("d"), "a/b@1", ".log"), Path::new("d/a_b@1.log"));
    }
}
