//! `ocr-demo`: reads pages through a flow of functions and models, prints their text beside that of
//! the Python package, and draws the boxes. The last line is the JSON object of the figure.

use clap::Parser;
use demo_flow::flow;
use dflow::Session;
use ocr::gather;
use ocr_demo::measure::{Blocks, Work, memory_kib, threads};
use ocr_demo::oracle::{Expected, Package, Sizes};
use ocr_demo::set::{self, Page};
use ocr_demo::verdict::{Found, Verdict};
use ocr_demo::{draw, report};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Reads pages and compares the text with what the Python package rapidocr-onnxruntime reads at the
/// same sizes. Exit code 0: no page failed, and the texts are near enough.
#[derive(Debug, Parser)]
#[command(name = "ocr-demo", version)]
struct Args {
    /// Pages (PNG, JPEG) or directories of them; none: those of DFLOW_PAGES_DIR and rendered ones
    #[arg(value_name = "DIR_OR_FILE")]
    paths: Vec<PathBuf>,
    /// Render so many pages
    #[arg(long, value_name = "N", default_value_t = 12)]
    pages: usize,
    /// Only read: don't compare with the package
    #[arg(long)]
    no_check: bool,
    /// Another graph file: image file in, text out
    #[arg(long, value_name = "FILE", default_value_os_t = default_graph())]
    graph: PathBuf,
    /// Write the pages with their boxes into this folder
    #[arg(long, value_name = "FOLDER", default_value_os_t = default_boxes())]
    boxes: PathBuf,
    /// Read the pages four times
    #[arg(long)]
    full: bool,
}

fn default_graph() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../graphs/ocr.yaml"))
}

/// Beside this program, in the build folder.
fn default_boxes() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.with_file_name("ocr-boxes")
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<bool, String> {
    let pages = pages(args)?;
    let largest = pages.iter().map(|page| page.file.len()).max().unwrap_or(0);
    let package = if args.no_check { None } else { Some(Package::start(Sizes::default())?) };
    let session = flow::deploy(flow::load(&args.graph, largest)?, true)?;
    let read = read(&session, &pages, package, if args.full { FULL } else { 1 })?;
    for (index, (page, found)) in pages.iter().zip(&read.found).enumerate() {
        say(&report::page(page, found, read.expected.get(index)));
    }
    draw(&pages, &read.found, &args.boxes)?;
    session.close();
    if args.no_check {
        let failed = read.found.iter().filter(|page| page.lines.is_err()).count();
        say(&format!("{} pages, {failed} failed", pages.len()));
        return Ok(failed == 0);
    }
    let verdict = Verdict::of(&read.found, &read.expected);
    say(&verdict.text());
    say(&read.text());
    say(&read.figure(&verdict));
    // Pages of the user's are as many as they are.
    Ok(verdict.holds() || !args.paths.is_empty() && verdict.failed == 0)
}

fn pages(args: &Args) -> Result<Vec<Page>, String> {
    if !args.paths.is_empty() {
        return set::own(&args.paths);
    }
    let folder = std::env::var_os("DFLOW_PAGES_DIR").ok_or("DFLOW_PAGES_DIR is not set")?;
    set::standard(Path::new(&folder), args.pages)
}

/// Pages of a block: the package reads them, then the flow, neither while the other does.
const BLOCK: usize = 2;
/// With `--full`, so many times as many blocks.
const FULL: usize = 4;

/// What both read, and what it took.
struct Read {
    found: Vec<Found>,
    /// Of the package, if it is asked.
    expected: Vec<Expected>,
    blocks: Blocks,
    /// Mean milliseconds of a page that is alone.
    alone_ms: f64,
    /// Work while pages were alone.
    work: Work,
    threads: usize,
    memory_kib: u64,
}

/// Reads all pages in blocks, in turn with the package, then one after the other.
fn read(
    session: &Session,
    pages: &[Page],
    mut package: Option<Package>,
    times: usize,
) -> Result<Read, String> {
    let files: Vec<(&str, &[u8])> =
        pages.iter().map(|page| (page.name.as_str(), page.file.as_slice())).collect();
    // The first page is not counted: as with the package, it warms up.
    flow::run(session, &files[..files.len().min(1)], found)?;
    let (mut all, mut expected, mut blocks) = (Vec::new(), Vec::new(), Blocks::default());
    for block in std::iter::repeat_n(&files, times).flat_map(|files| files.chunks(BLOCK)) {
        let theirs = package.iter_mut().flat_map(|package| {
            block.iter().map(|(_, file)| package.read(file)).collect::<Vec<_>>()
        });
        let theirs = theirs.collect::<Result<Vec<Expected>, String>>()?;
        let ours = flow::run(session, block, found)?;
        let millis = theirs.iter().map(|page| page.millis).sum();
        blocks.add(block.len(), ours.took.as_secs_f64() * 1e3, millis);
        all.extend(ours.found);
        expected.extend(theirs);
    }
    package.map_or(Ok(()), Package::end)?;
    let memory_kib = memory_kib(session);
    let before = Work::now(session);
    let mut alone_ms = 0.0;
    for file in &files {
        let run = flow::run(session, std::slice::from_ref(file), found)?;
        alone_ms += run.found.iter().map(|page| page.millis).sum::<f64>();
    }
    let work = Work::now(session).since(before);
    let alone_ms = alone_ms / count(files.len());
    let threads = threads(session);
    // Later ones are the same pages again.
    all.truncate(files.len());
    expected.truncate(files.len());
    Ok(Read { found: all, expected, blocks, alone_ms, work, threads, memory_kib })
}

fn found(event: &dflow::Event) -> Found {
    let lines = flow::answer(event, |bytes| {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        gather::read(text)
    });
    Found { lines, millis: flow::millis(event) }
}

impl Read {
    fn text(&self) -> String {
        let theirs = Theirs::of(&self.expected);
        let [compute, functions, hops] = self.work.shares().map(|share| 100.0 * share);
        let [ours, package] = self.blocks.pages_per_s();
        format!(
            "\n throughput {ours:.2} pages/s by {} threads; the package: {package:.2} by {}\n \
             latency    {:.0} ms a page alone; the package: {:.0} ms\n time       {compute:.1} % \
             models, {functions:.1} % functions, {hops:.1} % queues and waking\n memory     {} \
             MiB; the package: {} MiB at most\n",
            self.threads,
            theirs.threads,
            self.alone_ms,
            1e3 / package,
            self.memory_kib >> 10,
            theirs.peak_kib >> 10,
        )
    }

    fn figure(&self, verdict: &Verdict) -> String {
        let theirs = Theirs::of(&self.expected);
        #[expect(clippy::cast_precision_loss, reason = "KiB")]
        let memory = self.memory_kib as f64 / theirs.peak_kib.max(1) as f64;
        let [ours, package] = self.blocks.pages_per_s();
        let [lower, median, upper] = self.blocks.ratios();
        json!({
            "pages": verdict.pages,
            "lines": verdict.lines,
            "lines_equal": verdict.lines_equal,
            "cer": verdict.cer(),
            "throughput_ratio": median,
            "iqr": {"throughput_ratio": upper - lower},
            "blocks": self.blocks.count(),
            "pages_per_s": ours,
            "package_pages_per_s": package,
            "threads": {"ours": self.threads, "theirs": theirs.threads},
            "shares": self.work.to_json(),
            "latency_ratio": self.alone_ms * package / 1e3,
            "peak_memory_ratio": memory,
        })
        .to_string()
    }
}

/// What the package's process is.
struct Theirs {
    threads: u64,
    peak_kib: u64,
}

impl Theirs {
    fn of(expected: &[Expected]) -> Theirs {
        let most = |value: fn(&Expected) -> u64| expected.iter().map(value).max().unwrap_or(0);
        Theirs { threads: most(|page| page.threads), peak_kib: most(|page| page.peak_kib) }
    }
}

fn draw(pages: &[Page], found: &[Found], folder: &Path) -> Result<(), String> {
    let wrong = |path: &Path, error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(folder).map_err(|error| wrong(folder, error))?;
    for (page, found) in pages.iter().zip(found) {
        let Ok(lines) = &found.lines else { continue };
        let path = folder.join(&page.name).with_extension("png");
        let drawn =
            draw::boxes(&page.file, lines).map_err(|error| format!("{}: {error}", page.name))?;
        std::fs::write(&path, drawn).map_err(|error| wrong(&path, error))?;
    }
    say(&format!("{}: every page with its boxes\n", folder.display()));
    Ok(())
}

fn count(pages: usize) -> f64 {
    f64::from(u32::try_from(pages).unwrap_or(u32::MAX))
}

/// A line on stdout; a reader that went away is no error.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
