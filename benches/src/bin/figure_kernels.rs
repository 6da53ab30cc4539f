//! `figure-kernels`: models beside onnxruntime with all its optimisations, one thread on one core.
//!
//! `models`: `ratio` is the median over interleaved blocks of our time a run by the rival's, with
//! bound input and output there; `max_abs_diff` compares both results for the same noise; `allocs`
//! counts the malloc family over 10 of our runs, `counter_counts` shows that it would. A model that
//! the compiler refuses has `refused` in place of numbers. `load_vs_ort`: from the mapping of a
//! compiled model to its first result, by the time from a model's file to a session's first result.
//! `two_thread_speedup_det`: time of a run of det on one thread by that on two, each on its core;
//! the results are the same bits, or the figure fails.

use benches::Failure;
use benches::args::Args;
use benches::cores::Cores;
use benches::kernels::Oracle;
use benches::kernels::case::CASES;
use benches::report::Report;
use executor_rt::interpose;
use serde_json::{Value, json};

executor_rt::interpose_malloc!();

fn main() -> Result<(), Failure> {
    if benches::play_role()? {
        return Ok(());
    }
    let args = Args::from_env()?;
    let cores = Cores::pin()?;
    let folder = Folder::new()?;
    let oracle = Oracle::start(&folder.0)?;
    let mut report = Report::new("kernels");
    report.put("onnxruntime", oracle.version.as_str());
    report.put("isa", format!("{:?}", npu::isa::best()));
    report.put("core", cores.near);
    report.put("counter_counts", counts());
    for case in CASES {
        let measured = case.measure(&oracle, &folder.0, args.full)?;
        println!("{}: {}", case.name, measured.object);
        report.at(&["models", case.name], measured.object);
        let load = measured.load.map_or(Value::Null, |load| json!(load.median));
        report.at(&["load_vs_ort", case.name], load);
        if let Some(load) = measured.load {
            report.at(&["iqr", "load_vs_ort", case.name], json!(load.iqr));
        }
    }
    if let Some(det) = CASES.iter().find(|case| case.name == "det") {
        let (speedup, allocs) = det.speedup(&folder.0, cores.far)?;
        println!(
            "two_thread_speedup_det: {:.2} ({:.2}), {allocs} allocations",
            speedup.median, speedup.iqr
        );
        report.put("two_thread_speedup_det", speedup.median);
        report.put("two_thread_allocs_det", allocs);
        report.at(&["iqr", "two_thread_speedup_det"], json!(speedup.iqr));
    }
    report.print()?;
    Ok(())
}

/// Whether an allocation is seen.
fn counts() -> bool {
    let before = interpose::counts().setup;
    drop(std::hint::black_box(vec![0u8; 64]));
    interpose::counts().setup > before
}

/// A folder that goes when this does.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("figure-kernels-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
