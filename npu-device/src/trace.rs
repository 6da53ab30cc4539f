//! A model as Chrome trace JSON: a row for each stream, a bar for each task, arrows from what is
//! recorded to what waits for it. Times are places in the stream, not measured.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::device::Inner;
use crate::lock::lock;
use crate::model::Model;
use crate::sqe::{Sqe, kind, task};
use crate::stream::TaskInfo;

/// How much of each task is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What it is, and its numbers.
    Summary = 0,
    /// Arguments of kernels too.
    Verbose = 1,
}

impl Model {
    /// Writes the model as Chrome trace JSON.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn trace(&self, out: &mut dyn Write, detail: Detail) -> io::Result<()> {
        let device = self.context.device();
        let cores = lock(&self.graph.build).streams.clone();
        let process = self.id();
        let mut first = true;
        let mut put = |out: &mut dyn Write, event: &str| {
            let comma = if std::mem::take(&mut first) { "" } else { ",\n" };
            write!(out, "{comma}{event}")
        };
        writeln!(out, "{{\"traceEvents\":[")?;
        put(out, &named("process_name", process, 0, &self.label()))?;
        let mut shown: Vec<_> = cores.iter().filter(|core| core.sq == core.shown).collect();
        shown.sort_by_key(|core| core.sq);
        for core in shown {
            let stream =
                crate::stream::Stream { core: core.clone(), context: self.context.clone() };
            let row = format!("stream {}", stream.id());
            put(out, &named("thread_name", process, stream.id(), &row))?;
            for info in stream.tasks() {
                put(out, &bar(device, process, stream.id(), &info, detail))?;
                if let Some(arrow) = arrow(process, stream.id(), &info) {
                    put(out, &arrow)?;
                }
            }
        }
        writeln!(out, "\n],\"displayTimeUnit\":\"ns\"}}")
    }

    fn label(&self) -> String {
        match self.name() {
            name if name.is_empty() => format!("model {}", self.id()),
            name => format!("model {} {name}", self.id()),
        }
    }
}

fn named(what: &str, process: u32, thread: u32, name: &str) -> String {
    let name = escaped(name);
    format!(
        "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{process},\"tid\":{thread},\
         \"args\":{{\"name\":\"{name}\"}}}}"
    )
}

fn bar(device: &Inner, process: u32, thread: u32, info: &TaskInfo, detail: Detail) -> String {
    let (sqe, at) = (&info.sqe, info.sequence);
    let mut args =
        format!("\"stream\":{thread},\"task\":{},\"kind\":{}", sqe.header.task, sqe.kind());
    let function = match (sqe.kind(), sqe.task_type()) {
        (kind::KERNEL | kind::AICPU, _) | (kind::PLACE_HOLDER, task::HOST_FUNCTION) => {
            device.functions.named(sqe.payload[0])
        }
        _ => None,
    };
    let kernel = matches!(sqe.kind(), kind::KERNEL | kind::AICPU);
    if kernel {
        let _ = write!(args, ",\"blocks\":{}", sqe.header.block_dim);
    }
    if kernel && detail == Detail::Verbose {
        let [_, a, b, c, d, _] = sqe.payload;
        let _ = write!(args, ",\"args\":[\"{a:#x}\",\"{b:#x}\",\"{c:#x}\",\"{d:#x}\"]");
    }
    let what = name_of(sqe);
    let name = function.map_or_else(|| what.to_owned(), |entry| escaped(&entry.name));
    format!(
        "{{\"ph\":\"X\",\"name\":\"{name}\",\"cat\":\"{what}\",\"pid\":{process},\
         \"tid\":{thread},\"ts\":{at},\"dur\":1,\"args\":{{{args}}}}}"
    )
}

/// Begin or end of an arrow, for what is recorded and waited for.
fn arrow(process: u32, thread: u32, info: &TaskInfo) -> Option<String> {
    let sqe = &info.sqe;
    let (phase, what) = match sqe.kind() {
        kind::EVENT_RECORD => ("s", "event"),
        kind::EVENT_WAIT => ("f", "event"),
        kind::NOTIFY_RECORD => ("s", "notify"),
        kind::NOTIFY_WAIT => ("f", "notify"),
        _ => return None,
    };
    let (id, at) = (sqe.object, info.sequence);
    let end = if phase == "f" { ",\"bp\":\"e\"" } else { "" };
    Some(format!(
        "{{\"ph\":\"{phase}\"{end},\"name\":\"{what} {id}\",\"cat\":\"{what}\",\
         \"id\":{id},\"pid\":{process},\"tid\":{thread},\"ts\":{at}}}"
    ))
}

/// What a task is called that has no function.
pub(crate) fn name_of(sqe: &Sqe) -> &'static str {
    match (sqe.kind(), sqe.task_type()) {
        (kind::KERNEL, _) => "KERNEL",
        (kind::AICPU, _) => "KERNEL_AICPU",
        (kind::EVENT_RECORD, _) => "EVENT_RECORD",
        (kind::EVENT_WAIT, _) => "EVENT_WAIT",
        (kind::NOTIFY_RECORD, _) if sqe.payload[1] != 0 => "MODEL_END_GRAPH",
        (kind::NOTIFY_RECORD, _) => "NOTIFY_RECORD",
        (kind::NOTIFY_WAIT, _) => "NOTIFY_WAIT",
        (kind::WRITE_VALUE, _) => "VALUE_WRITE",
        (kind::SDMA, _) => "MEMCPY",
        (_, task::MODEL_MAINTENANCE) => "MODEL_MAINTAINCE",
        (_, task::MODEL_EXECUTE) => "MODEL_EXECUTE",
        (_, task::STREAM_SWITCH) => "STREAM_SWITCH",
        (_, task::STREAM_ACTIVE) => "STREAM_ACTIVE",
        (_, task::LABEL_SET) => "LABEL_SET",
        (_, task::EVENT_RESET) => "EVENT_RESET",
        (_, task::MEMSET) => "MEMSET",
        (_, task::HOST_FUNCTION) => "HOSTFUNC_CALLBACK",
        (_, task::LABEL_SWITCH_BY_INDEX) => "STREAM_LABEL_SWITCH_BY_INDEX",
        (_, task::LABEL_GOTO) => "STREAM_LABEL_GOTO",
        (_, task::NOP) => "NOP",
        (_, task::WAIT_VALUE) => "VALUE_WAIT",
        (_, task::CAPTURE_RECORD_EXTERNAL) => "CAPTURE_RECORD_EXTERNAL",
        (_, task::CAPTURE_WAIT_EXTERNAL) => "CAPTURE_WAIT_EXTERNAL",
        (_, task::CAPTURE_CONDITION) => "CAPTURE_CONDITION",
        _ => "UNKNOWN",
    }
}

/// As the inside of a JSON string.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if u32::from(control) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out
}
