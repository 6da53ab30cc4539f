//! `dflow compile`, and what it has in common with `dflow inspect`: models outside of a graph.

use std::fs;
use std::path::{Path, PathBuf};

use npu::program::STREAMS_MAX;

use super::{CELL_MAX, Failure, print, shown};
use crate::error::{found_in_file, io_text, shown_up_to};
use crate::graph::{DType, TensorDesc};
use crate::model::{self, Loadable, Port};
use crate::plan::bytes_text;
use npu::program::Layout;

/// Arguments of both commands.
#[derive(Debug, clap::Args)]
pub(super) struct Source {
    /// Model: ONNX, a frozen TensorFlow graph, or compiled (OM)
    pub(super) model: PathBuf,
    /// Dims of an input, for dims that the model leaves open: NAME=1x3x224x224
    #[arg(long, value_name = "NAME=DIMS")]
    input: Vec<String>,
    /// Put tasks that a team would share badly on up to N streams, for as many threads
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=STREAMS_MAX as i64))]
    streams: u32,
    /// Compile anew, without looking at or adding to the cache
    #[arg(long)]
    no_cache: bool,
}

impl Source {
    pub(super) fn load(&self, layouts: &[Layout], anew: bool) -> Result<Loadable, Failure> {
        let bound = self.input.iter().map(|text| desc(text)).collect::<Result<Vec<_>, _>>()?;
        let name = self.model.file_name().unwrap_or_default().to_string_lossy();
        let streams = model::streams(self.streams);
        let wanted = model::Wanted { bound: &bound, streams, layouts };
        let loaded = model::load(&name, &self.model, wanted, !(self.no_cache || anew));
        let loaded = loaded.map_err(|error| {
            let what = format!("{}: model", self.model.display());
            Failure::system(&what, &found_in_file(&error.found), error.expected, error.hint)
        })?;
        bound.iter().try_for_each(|desc| fits(desc, &loaded.inputs))?;
        Ok(loaded)
    }
}

/// A compiled model has its dims: they are the ones that were asked for, or this is refused.
fn fits(asked: &TensorDesc, inputs: &[Port]) -> Result<(), Failure> {
    let name = asked.name.as_deref().unwrap_or_default();
    let own = inputs.iter().find(|port| port.name == name);
    if own.is_some_and(|port| port.shape == asked.shape) {
        return Ok(());
    }
    let found = own.map_or_else(
        || format!("`{name}`, which is no input of the model"),
        |_| format!("`{name}` as {}", asked.shape),
    );
    let inputs: Vec<String> =
        inputs.iter().map(|port| format!("`{}` as {}", port.name, port.shape)).collect();
    let expected = format!("what the model has: {}", inputs.join(", "));
    let hint = "correct it; a compiled model keeps its dims: compile the one it was made of anew";
    Err(Failure::usage("--input", &found, &expected, hint))
}

/// `x=1x3x224x224`.
fn desc(text: &str) -> Result<TensorDesc, Failure> {
    let dims = text.rsplit_once('=').and_then(|(name, dims)| {
        let dims: Result<Vec<i64>, _> = dims.split('x').map(str::parse).collect();
        Some((name, dims.ok().filter(|dims| dims.iter().all(|dim| *dim >= 0))?))
    });
    let (name, dims) = dims.ok_or_else(|| {
        let (expected, hint) = ("NAME=DIMS, for example x=1x3x224x224", "correct it");
        Failure::usage("--input", &format!("`{text}`"), expected, hint)
    })?;
    // The compiler takes names and dims; the type is the model's own.
    Ok(TensorDesc { name: Some(name.to_owned()), dtype: DType::Float32, shape: dims.into() })
}

/// Machines that weights are packed for, besides what every machine reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum For {
    /// Every machine: nothing more
    Any,
    /// Machines with AVX512-VNNI or AVX-VNNI: quantised weights as fours of bytes
    Vnni,
    /// Whatever this machine reads best
    Native,
}

/// The layouts for these machines.
fn layouts(machines: &[For]) -> Vec<Layout> {
    let one = |machine: &For| match machine {
        For::Any => Layout::Pairs,
        For::Vnni => Layout::Fours,
        For::Native => Layout::native(),
    };
    let mut all: Vec<Layout> = machines.iter().map(one).collect();
    all.sort();
    all.dedup();
    all
}

/// Compiles into a file; with `explain`, says what became of each node.
pub(super) fn compile(
    source: &Source,
    output: Option<&Path>,
    machines: &[For],
    explain: bool,
) -> Result<u8, Failure> {
    let loaded = source.load(&layouts(machines), explain)?;
    let path = output.map_or_else(|| source.model.with_extension("om"), Path::to_owned);
    let real = |path: &Path| fs::canonicalize(path).ok();
    let same = real(&path).is_some_and(|out| real(&source.model) == Some(out));
    // A compiled model may be written over itself: nothing changes.
    if same && fs::read(&path).ok().as_deref() != Some(loaded.program.bytes()) {
        let found = format!("{} is the model itself", path.display());
        return Err(Failure::usage("-o", &found, "a file of its own", "name another one"));
    }
    write_named(&path, loaded.program.bytes()).map_err(|error| {
        let what = format!("can't write {}", path.display());
        match missing_folder(&path) {
            Some(folder) => {
                let found = format!("the folder {} is not there", folder.display());
                let hint = "make the folder, or name a file elsewhere with `-o`";
                Failure::system(&what, &found, "a file in a folder that is there", hint)
            }
            None => {
                let hint = "name it with `-o`";
                Failure::system(&what, &io_text(&error), "a file that can be written", hint)
            }
        }
    })?;
    let mut text = format!("{}: {}\n", path.display(), summary(&loaded));
    if explain {
        text.push_str(&explanation(&loaded));
    }
    print(&text)
}

/// The folder that a file is to be in, unless it is there.
fn missing_folder(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
}

/// A line for each node of the model.
fn explanation(model: &Loadable) -> String {
    if model.fates.is_empty() {
        return "a compiled model has no nodes to explain; name the one it was made of\n"
            .to_owned();
    }
    let line = |fate: &compiler::Fate| {
        let (node, op) = (shown(&fate.node), shown(&fate.op));
        // Names of other nodes stand in it.
        format!("{node} ({op}): {}\n", shown_up_to(4 * CELL_MAX, &fate.what))
    };
    // Names of inputs stand in it.
    let symbols = model.symbols.as_ref();
    let symbols = symbols.map(|text| format!("shapes: {}\n", shown_up_to(4 * CELL_MAX, text)));
    symbols.into_iter().chain(model.fates.iter().map(line)).collect()
}

/// Writes what a user named: whole or not at all where a file is or comes to be; through links, and
/// into devices and FIFOs, instead of putting a file in their place.
fn write_named(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    match (fs::canonicalize(path), fs::symlink_metadata(path)) {
        (Ok(real), _) if fs::metadata(&real)?.is_file() => model::write_whole(&real, bytes),
        (_, Ok(_)) => fs::write(path, bytes),
        (_, Err(_)) => model::write_whole(path, bytes),
    }
}

pub(super) fn summary(model: &Loadable) -> String {
    let report = &model.report;
    let packed = report.sections.iter().filter(|section| section.isa != "any");
    let packed = packed
        .map(|section| format!(" (for {} besides {})", section.isa, bytes_text(section.bytes)));
    format!(
        "{} tasks, {} FLOPs, weights {}{}, arena {} ({} in use at once), file {}",
        report.tasks.len(),
        count(report.flops),
        bytes_text(report.weights_bytes),
        packed.collect::<String>(),
        bytes_text(report.arena_bytes),
        bytes_text(report.live_bytes),
        bytes_text(report.file_bytes)
    )
}

/// Three digits and a unit.
fn count(number: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, " G"), (1_000_000, " M"), (1_000, " k")];
    match UNITS.iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) => format!("{}.{:02}{name}", number / unit, number % unit * 100 / unit),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use npu::program::Layout;

    use super::{For, count, desc, layouts};

    #[test]
    fn machines_are_layouts_each_of_them_once() {
        assert_eq!(layouts(&[]), []);
        let both = [Layout::Pairs, Layout::Fours];
        assert_eq!(layouts(&[For::Vnni, For::Any, For::Vnni]), both);
        assert_eq!(layouts(&[For::Native]), [Layout::native()]);
    }

    #[test]
    fn inputs_are_names_and_dims() {
        let good = desc("a=b=1x3x224").unwrap();
        assert_eq!((good.name.as_deref(), good.shape.0), (Some("a=b"), vec![1, 3, 224]));
        for bad in ["x", "x=", "x=1x", "x=-1x3", "x=1,3"] {
            assert!(desc(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts_have_a_unit() {
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1.23 M");
        assert_eq!(count(2_000_000_000), "2.00 G");
    }
}
