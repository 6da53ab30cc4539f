//! `cargo xtask figures NAME`: builds what a figure needs, runs its program, and prints the JSON
//! object that this prints last as its own last line. Also `cargo xtask bench`.

use std::fs::OpenOptions;
use std::io::Write;

use crate::context::Context;
use crate::process::{self, Line};
use crate::{cpp, demo, models};

/// A figure: a program, what must be built before it, what its object must at least contain.
struct Figure {
    name: &'static str,
    /// Package of its program.
    package: &'static str,
    /// Binary of that package.
    program: &'static str,
    needs: &'static [Build],
    /// Keys, which only grow.
    keys: &'static [&'static str],
}

/// What a figure may need beyond its own program.
#[derive(Clone, Copy)]
enum Build {
    Executors,
    /// The library of the test functions.
    Functions,
    Rivals,
    /// What functions in C++ are built with.
    Cpp,
    /// Models that packages have.
    Models,
    /// The examples, with their models and pages.
    Examples,
    /// The Python packages that a flow's answers are compared with.
    Oracle,
}

impl Figure {
    /// Whether its program is one of the examples, which are built together.
    fn is_example(&self) -> bool {
        self.package.ends_with("-demo")
    }

    /// Whether its program is a test, which prints the object among its lines.
    fn is_test(&self) -> bool {
        self.package == "compiler"
    }
}

const FIGURES: &[Figure] = &[
    Figure {
        name: "alloc",
        package: "benches",
        program: "figure-alloc",
        needs: &[Build::Executors, Build::Cpp, Build::Functions],
        keys: &[
            "messages",
            "npu_executor",
            "host_cpu_executor",
            "udf_executor_rust",
            "udf_executor_cpp",
            "user",
            "counter_counts",
        ],
    },
    Figure {
        name: "queue",
        package: "benches",
        program: "figure-queue",
        needs: &[Build::Rivals],
        keys: &["enqueue_dequeue_ns", "array_queue_ns"],
    },
    Figure {
        name: "hop",
        package: "benches",
        program: "figure-hop",
        needs: &[Build::Rivals],
        keys: &[
            "line_transfer_ns",
            "spin_hop_ns",
            "spin_hop_lines",
            "iceoryx2_ns",
            "vs_iceoryx2",
            "size_4mib_vs_8b",
            "wake_one_core_vs_futex",
            "wake_two_cores_vs_futex",
            "iqr",
        ],
    },
    Figure {
        name: "chain",
        package: "benches",
        program: "figure-chain",
        needs: &[Build::Executors, Build::Functions],
        keys: &[
            "ratio",
            "growth_vs_ring",
            "bytes_copied",
            "sunk_vs_through_host",
            "pipeline_vs_slowest_stage",
            "iqr",
        ],
    },
    Figure {
        name: "start",
        package: "benches",
        program: "figure-start",
        needs: &[Build::Executors, Build::Functions],
        keys: &[
            "ready_ms",
            "restart_ms",
            "rss_anon_kib",
            "pss_kib",
            "binary_kib",
            "prefault_ms_per_mib",
        ],
    },
    Figure {
        name: "kernels",
        package: "benches",
        program: "figure-kernels",
        needs: &[Build::Models, Build::Oracle],
        keys: &["models", "two_thread_speedup_det", "load_vs_ort", "counter_counts"],
    },
    Figure {
        name: "device",
        package: "benches",
        program: "figure-device",
        needs: &[],
        keys: &[
            "empty_task_ns",
            "submit_to_first_task_ns",
            "run_1000_us",
            "allocs",
            "counter_counts",
            "line_transfer_ns",
            "call_ns",
            "iqr",
        ],
    },
    Figure {
        name: "conformance",
        package: "compiler",
        program: "node_cases",
        needs: &[Build::Oracle],
        keys: &[
            "total",
            "passed",
            "refused",
            "wrong",
            "by_type",
            "runtime_inputs_passed",
            "runtime_inputs_total",
        ],
    },
    Figure {
        name: "orientation",
        package: "orientation-demo",
        program: "orientation-demo",
        needs: &[Build::Executors, Build::Examples, Build::Oracle],
        keys: &["pages", "labels_equal", "max_confidence_diff", "pages_per_s"],
    },
    Figure {
        name: "ocr",
        package: "ocr-demo",
        program: "ocr-demo",
        needs: &[Build::Executors, Build::Examples, Build::Oracle],
        keys: &[
            "pages",
            "lines",
            "cer",
            "throughput_ratio",
            "threads",
            "shares",
            "latency_ratio",
            "peak_memory_ratio",
            "iqr",
        ],
    },
    Figure {
        name: "fault",
        package: "tests",
        program: "figure-fault",
        needs: &[Build::Executors, Build::Functions, Build::Examples],
        keys: &[
            "seed",
            "events",
            "kills",
            "fed",
            "terminal",
            "duplicates",
            "leaked_mbufs",
            "leaked_blocks",
            "orphans",
            "files_left",
            "hangs",
            "canary_failed",
            "orientation",
        ],
    },
];

/// Measures one figure.
pub(crate) fn run(context: &Context, args: &[String]) -> Result<(), String> {
    let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
    if args.iter().any(|arg| arg == "--list") {
        println!("{}", names.join("\n"));
        return Ok(());
    }
    let name = args
        .iter()
        .find(|arg| !arg.starts_with('-'))
        .ok_or_else(|| format!("figures: expected a name, one of: {}", names.join(", ")))?;
    let figure = FIGURES
        .iter()
        .find(|figure| figure.name == name)
        .ok_or_else(|| format!("no figure `{name}`; there are: {}", names.join(", ")))?;
    let write = args.iter().any(|arg| arg == "--write");
    let passed: Vec<&str> =
        args.iter().map(String::as_str).filter(|arg| arg != name && *arg != "--write").collect();
    build(context, figure)?;
    let object = measure(context, figure, &passed)?;
    if write {
        record(context, figure, &object)?;
    }
    println!("{object}");
    Ok(())
}

/// Criterion groups; `args` go to `cargo bench`.
pub(crate) fn bench(context: &Context, args: &[String]) -> Result<(), String> {
    let mut all = vec!["bench", "-p", "benches"];
    all.extend(args.iter().map(String::as_str));
    process::run_plain(&mut context.cargo("", &all))
}

fn build(context: &Context, figure: &Figure) -> Result<(), String> {
    for need in figure.needs {
        match need {
            Build::Executors => demo::build_executors(context)?,
            Build::Functions => {
                let args = ["build", "--profile", "udf", "-p", "faultfuncs"];
                process::run_plain(&mut context.cargo("", &args))?;
            }
            Build::Cpp => cpp::install(context)?.iter().for_each(|line| eprintln!("{line}")),
            Build::Rivals => {
                process::run_plain(&mut context.cargo("benches/rivals", &["build", "--release"]))?;
            }
            Build::Models => models::fetch(context)?.iter().for_each(|line| eprintln!("{line}")),
            Build::Examples => demo::make_examples(context)?,
            Build::Oracle => demo::make_oracle(context)?,
        }
    }
    if figure.is_example() || figure.is_test() {
        return Ok(());
    }
    let args = ["build", "--release", "-p", figure.package, "--bin", figure.program];
    process::run_plain(&mut context.cargo("", &args))
}

/// Runs the program; its lines pass through, except the object, which is returned.
fn measure(context: &Context, figure: &Figure, args: &[&str]) -> Result<String, String> {
    let folder = if figure.is_example() { context.udfs() } else { context.executors() };
    let mut command = if figure.is_test() {
        let test = ["test", "-p", figure.package, "--test", figure.program, "--", "--nocapture"];
        context.cargo("", &[&test, args].concat())
    } else {
        context.program(&folder.join(figure.program), args)
    };
    let mut last = String::new();
    let status = process::run_lines(&mut command, None, |line| match line {
        Line::Err(text) => eprintln!("{text}"),
        Line::Out(text) if text.is_empty() => {}
        Line::Out(text) if figure.is_test() && !text.starts_with('{') => eprintln!("{text}"),
        Line::Out(text) => {
            let before = std::mem::replace(&mut last, text);
            if !before.is_empty() {
                println!("{before}");
            }
        }
    })?;
    if !status.success() {
        println!("{last}");
        return Err(format!("figure {}: {} failed: {status}", figure.name, figure.program));
    }
    check(figure, &last)?;
    Ok(last)
}

fn check(figure: &Figure, object: &str) -> Result<(), String> {
    if !(object.starts_with('{') && object.ends_with('}')) {
        return Err(format!(
            "figure {}: last line of {} is not a JSON object: {object}",
            figure.name, figure.program
        ));
    }
    let absent: Vec<&str> =
        figure.keys.iter().copied().filter(|key| !object.contains(&format!("\"{key}\""))).collect();
    if absent.is_empty() {
        return Ok(());
    }
    Err(format!("figure {}: no key {} in {object}", figure.name, absent.join(", ")))
}

fn record(context: &Context, figure: &Figure, object: &str) -> Result<(), String> {
    let path = context.root.join("docs/perf.md");
    let unknown = || "unknown".to_owned();
    let date = process::output_of("date", &["-u", "+%F"]).unwrap_or_else(unknown);
    let root = context.root.to_string_lossy();
    let commit = process::output_of("git", &["-C", &root, "describe", "--always", "--dirty"])
        .unwrap_or_else(unknown);
    let machine = machine().unwrap_or_else(unknown);
    let entry =
        format!("\n{}, {date}, commit {commit}, {machine}:\n```json\n{object}\n```\n", figure.name);
    OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(entry.as_bytes()))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Processor, cores and kernel in one line.
fn machine() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": ?");
    let cores = std::thread::available_parallelism().ok()?;
    let kernel = process::output_of("uname", &["-r"])?;
    Some(format!("{}, {cores} cores, Linux {kernel}", model.trim_start_matches(['\t', ' ', ':'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_without_a_key_is_refused_by_name() {
        let figure = FIGURES.iter().find(|figure| figure.name == "queue").unwrap();
        let error = check(figure, "{\"enqueue_dequeue_ns\": 9.5}").unwrap_err();
        assert!(error.contains("array_queue_ns"), "{error}");
        check(figure, "{\"enqueue_dequeue_ns\": 9.5, \"array_queue_ns\": 11}").unwrap();
        assert!(check(figure, "done").is_err());
    }

    #[test]
    fn names_are_unique() {
        for (index, figure) in FIGURES.iter().enumerate() {
            assert!(FIGURES[..index].iter().all(|other| other.name != figure.name));
        }
    }
}
