//! `dflow inspect`: what is in a model, and with `--profile` what its tasks cost here.

use npu::inspect::TaskReport;
use serde_json::{Value, json};

use super::model::{Source, summary};
use super::{Failure, print, shown, table};
use crate::model::{self, Loadable, Profile};

/// Arguments of the command.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
    /// Run the model here on noise, on one thread, and show how long each task takes
    #[arg(long)]
    profile: bool,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// Prints what is in a model.
pub(super) fn run(args: &Args) -> Result<u8, Failure> {
    let loaded = args.source.load(&[], false)?;
    let profile = args.profile.then(|| model::profile(&loaded.program)).transpose();
    let profile = profile.map_err(|found| {
        let what = format!("{}: profile", args.source.model.display());
        let hint = "run it where there is more memory, or without `--profile`";
        Failure::system(&what, &found, "a model that can run here", hint)
    })?;
    let profile = profile.as_ref();
    if args.json {
        return print(&format!("{:#}\n", object(&loaded, profile)));
    }
    let model = args.source.model.display();
    let text = format!("{model}: {}\n{}{}", summary(&loaded), ports(&loaded), sections(&loaded));
    let tasks = match profile {
        None => tasks(&loaded),
        Some(profile) => times(&loaded, profile),
    };
    print(&(text + &tasks))
}

fn ports(model: &Loadable) -> String {
    let mut text = String::new();
    for (kind, ports) in [("input", &model.inputs), ("output", &model.outputs)] {
        for (index, port) in ports.iter().enumerate() {
            let name = shown(&port.name);
            text.push_str(&format!("{kind} {index}  {name}: {} {}\n", port.dtype, port.shape));
        }
    }
    text
}

fn sections(model: &Loadable) -> String {
    let heading = ["section", "isa", "bytes"].map(str::to_owned);
    let own = model.report.sections.iter();
    let own = own.map(|own| vec![own.name.clone(), own.isa.clone(), own.bytes.to_string()]);
    table(&std::iter::once(heading.to_vec()).chain(own).collect::<Vec<_>>())
}

/// Shapes of a task's inputs, and types and shapes of its outputs.
fn shapes(task: &TaskReport) -> [String; 2] {
    let inputs: Vec<String> =
        task.inputs.iter().map(|input| input.info.shape.to_string()).collect();
    let outputs: Vec<String> = task.outputs.iter().map(|output| output.info.to_string()).collect();
    [inputs.join(" "), outputs.join(", ")]
}

/// A task's stream, and what of others it begins after.
fn stream(task: &TaskReport) -> String {
    let after: Vec<String> = task.after.iter().map(usize::to_string).collect();
    let before = if after.is_empty() { "" } else { " after " };
    format!("{}{before}{}", task.stream, after.join(", "))
}

fn tasks(model: &Loadable) -> String {
    let (weights, fours) = ("weights, bytes", "in fours");
    let heading = ["task", "op", "inputs", "output", "FLOPs", weights, fours, "scratch", "name"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let several = model.report.tasks.iter().any(|task| task.stream != 0);
    if several {
        rows[0].insert(1, "stream".to_owned());
    }
    rows.extend(model.report.tasks.iter().enumerate().map(|(index, task)| {
        let [inputs, outputs] = shapes(task);
        let stream = several.then(|| stream(task));
        let first = std::iter::once(index.to_string()).chain(stream);
        let rest = [
            task.op.clone(),
            inputs,
            outputs,
            task.flops.to_string(),
            task.weights_bytes.to_string(),
            task.fours_bytes.to_string(),
            task.scratch_bytes.to_string(),
            task.name.clone(),
        ];
        first.chain(rest).collect()
    }));
    table(&rows)
}

fn times(model: &Loadable, profile: &Profile) -> String {
    let heading = ["task", "op", "inputs", "output", "us", "share", "GFLOP/s", "name"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let each = model.report.tasks.iter().zip(&profile.tasks_ns).enumerate();
    rows.extend(each.map(|(index, (task, ns))| {
        let [inputs, outputs] = shapes(task);
        vec![
            index.to_string(),
            task.op.clone(),
            inputs,
            outputs,
            format!("{:.1}", us(*ns)),
            format!("{:.1} %", 100.0 * share(*ns, profile)),
            rate(task.flops, *ns).map_or("-".to_owned(), |rate| format!("{rate:.1}")),
            task.name.clone(),
        ]
    }));
    let total = rate(model.report.flops, profile.run_ns);
    let total = total.map_or(String::new(), |rate| format!(", {rate:.1} GFLOP/s"));
    let packed = match profile.packed_bytes {
        0 => String::new(),
        bytes => format!(", {bytes} bytes of weights packed at load"),
    };
    format!(
        "{} runs on one thread, {:?}{packed}: {:.1} us a run{total}; medians\n{}",
        profile.runs,
        npu::isa::best(),
        us(profile.run_ns),
        table(&rows)
    )
}

fn object(model: &Loadable, profile: Option<&Profile>) -> Value {
    let port = |port: &model::Port| {
        let (name, dtype) = (&port.name, port.dtype.to_string());
        json!({"name": name, "dtype": dtype, "shape": port.shape.0})
    };
    let tasks = model.report.tasks.iter().enumerate().map(|(index, task)| {
        let infos = |all: &[npu::inspect::TensorReport]| -> Vec<Value> {
            let one = |tensor: &npu::inspect::TensorReport| {
                let dtype = npu::tensor::type_name(tensor.info.dtype);
                json!({"dtype": dtype, "shape": tensor.info.shape.dims()})
            };
            all.iter().map(one).collect()
        };
        let mut own = json!({
            "op": task.op, "name": task.name, "flops": task.flops,
            "inputs": infos(&task.inputs), "outputs": infos(&task.outputs),
            "weights_bytes": task.weights_bytes, "fours_bytes": task.fours_bytes,
            "scratch_bytes": task.scratch_bytes,
            "stream": task.stream, "after": task.after,
        });
        if let Some(profile) = profile {
            let ns = profile.tasks_ns.get(index).copied().unwrap_or(0);
            own["us"] = us(ns).into();
            own["share"] = share(ns, profile).into();
            own["gflops"] = rate(task.flops, ns).into();
        }
        own
    });
    let report = &model.report;
    let sections = report
        .sections
        .iter()
        .map(|section| json!({"name": section.name, "isa": section.isa, "bytes": section.bytes}));
    let mut whole = json!({
        "file_bytes": report.file_bytes, "arena_bytes": report.arena_bytes,
        "weights_bytes": report.weights_bytes, "flops": report.flops,
        "sections": sections.collect::<Vec<_>>(),
        "inputs": model.inputs.iter().map(port).collect::<Vec<_>>(),
        "outputs": model.outputs.iter().map(port).collect::<Vec<_>>(),
        "tasks": tasks.collect::<Vec<_>>(),
    });
    if let Some(profile) = profile {
        whole["profile"] = json!({
            "runs": profile.runs, "isa": format!("{:?}", npu::isa::best()),
            "packed_bytes": profile.packed_bytes,
            "us": us(profile.run_ns), "gflops": rate(report.flops, profile.run_ns),
        });
    }
    whole
}

#[expect(clippy::cast_precision_loss, reason = "a time for people")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Part of a run's time.
fn share(ns: u64, profile: &Profile) -> f64 {
    us(ns) / us(profile.tasks_ns.iter().sum()).max(f64::MIN_POSITIVE)
}

/// 10^9 operations a second; none of a task without any, or too short for the clock.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(flops: u64, ns: u64) -> Option<f64> {
    (flops > 0 && ns > 0).then(|| flops as f64 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::{Profile, rate, share};

    #[test]
    fn rates_and_shares() {
        assert_eq!([rate(3_000, 1_500), rate(0, 5), rate(5, 0)], [Some(2.0), None, None]);
        let profile = Profile { runs: 1, packed_bytes: 0, run_ns: 9, tasks_ns: vec![2, 6] };
        assert!((share(6, &profile) - 0.75).abs() < 1e-12);
    }
}
