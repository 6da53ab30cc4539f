//! `dflow logs`, and the kept logs of `dflow run --keep-logs`.

use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use executor_rt::log::{LogLine, Stream};
use sys::clock::MonoTime;
use sys::memfd;
use sys::pidfd::PidFd;
use sys::poll::{Events, PollFd};

use super::report::file_in;
use super::{Failure, exit, write_out};
use crate::error::io_text;
use crate::session::Session;
use crate::tools::flow::Output;
use crate::tools::log::{Entry, Reader, runtime_line};
use crate::tools::{running, select};

/// New lines are looked for this often.
const LOOK_MS: u64 = 100;

/// Arguments of `dflow logs`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Flow name, process number of its supervisor, or a node; not needed while only one flow runs
    flow: Option<String>,
    /// Node, all its instances; or NODE@INSTANCE
    node: Option<String>,
    /// Go on until the flow ends
    #[arg(short, long)]
    follow: bool,
    /// Only stderr: log lines, and what libraries print there
    #[arg(long, conflicts_with = "stdout")]
    stderr: bool,
    /// Only what functions print to stdout
    #[arg(long)]
    stdout: bool,
}

struct Log {
    label: String,
    output: Output,
    reader: Reader,
    /// Stamp of the last log line: raw lines stay behind it.
    last_ns: u64,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<u8, Failure> {
    let (flow, node) = select(running(), args.flow.as_deref(), args.node.as_deref())?;
    let process = PidFd::open(flow.pid).ok();
    let mut logs = Vec::new();
    for label in flow.labels(node.as_deref()) {
        for (output, wanted) in [(Output::Stdout, !args.stderr), (Output::Stderr, !args.stdout)] {
            if wanted {
                let reader = Reader::new(flow.open_log(&label, output)?);
                logs.push(Log { label: label.clone(), output, reader, last_ns: 0 });
            }
        }
    }
    loop {
        // Looked at before reading: what was written before the end is read.
        let ended = process.as_ref().is_none_or(PidFd::is_ready);
        let more = args.follow && !ended;
        if !write_out(&batch(&mut logs, !more)?)? || !more {
            return Ok(exit::DONE);
        }
        if let Some(process) = &process {
            let until = MonoTime::now().add_ms(LOOK_MS);
            let _ = sys::poll::poll(&mut [PollFd::new(process, Events::IN)], Some(until));
        }
    }
}

/// Reads of one log until what was read is printed.
const READS_A_BATCH: usize = 64;

/// What is new in all logs, by time.
fn batch(logs: &mut [Log], last: bool) -> Result<String, Failure> {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for log in logs {
        // A node may write faster than this reads: a batch ends all the same, and is printed.
        for _ in 0..READS_A_BATCH {
            let entries = log.reader.read().map_err(|error| {
                let (output, label) = (log.output.name(), &log.label);
                Failure::System(format!("can't read the {output} log of node `{label}`: {error}"))
            })?;
            if entries.is_empty() {
                break;
            }
            lines.extend(entries.iter().map(|entry| log.line(entry)));
        }
        if last {
            let rest = log.reader.finish();
            lines.extend(rest.iter().map(|entry| log.line(entry)));
        }
    }
    lines.sort_by_key(|(time, _)| *time);
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}

impl Log {
    fn line(&mut self, entry: &Entry) -> (u64, String) {
        if let Entry::Line(line) = entry {
            self.last_ns = line.stamp.mono_ns;
        }
        (self.last_ns, text(&self.label, self.output, entry))
    }
}

fn text(label: &str, output: Output, entry: &Entry) -> String {
    match entry {
        Entry::Line(line) => logged(line),
        Entry::Raw(text) => format!("{label} {}: {text}\n", output.name()),
        Entry::Dropped(bytes) => {
            format!("{label} {}: ({bytes} older bytes are gone)\n", output.name())
        }
    }
}

/// `2026-01-31T23:59:59.123456789Z WARN binarise id 42: text`.
fn logged(line: &LogLine) -> String {
    let stamp = line.stamp.to_string();
    let wall = stamp.split(' ').next().unwrap_or_default();
    let mut text = format!("{wall} {:<5} {}", line.level.name(), line.node);
    // Writing to a string can't fail.
    let _ = match line.trans_id {
        Some(id) => write!(text, " id {id}"),
        None => Ok(()),
    };
    if line.stream == Stream::Runtime {
        text.push_str(" (runtime)");
    }
    let _ = write!(text, ": {}", line.text);
    if line.cut > 0 {
        let _ = write!(text, " ({} more bytes were cut)", line.cut);
    }
    text.push('\n');
    text
}

/// Logs of a session's nodes, to be written after it was closed.
#[derive(Debug)]
pub(super) struct Kept {
    logs: Vec<(String, &'static str, std::io::Result<OwnedFd>)>,
}

/// Keeps the logs of `session` open.
pub(super) fn keep(session: &Session) -> Kept {
    let mut logs = Vec::new();
    for (index, executor) in session.plan().executors.iter().enumerate() {
        // A model writes into the log of its device.
        if !executor.is_process() {
            continue;
        }
        if let Some((stdout, stderr)) = session.logs(index) {
            for (ending, fd) in [(".out.log", stdout), (".err.log", stderr)] {
                logs.push((executor.label.clone(), ending, fd.try_clone()));
            }
        }
    }
    Kept { logs }
}

impl Kept {
    /// Writes each log to a file of `folder`, from its first whole line on.
    pub(super) fn write(self, folder: &Path) -> Result<(), Failure> {
        for (label, ending, fd) in self.logs {
            let path = file_in(folder, &label, ending);
            let written = fd.and_then(|fd| copy(&fd, &path));
            written.map_err(|error| {
                let what = format!("can't keep the log {}", path.display());
                let hint = "make room there; the flow's results are out";
                Failure::system(&what, &io_text(&error), "a file that can be written", hint)
            })?;
        }
        Ok(())
    }
}

fn copy(fd: &OwnedFd, path: &Path) -> std::io::Result<()> {
    use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
    /// Longer lines are looked at in parts.
    const LINE_MAX: u64 = 1 << 20;
    /// Longest rest of a cut line that is left out.
    const REST_MAX: u64 = 64 << 10;
    let failed = |e: sys::SysError| std::io::Error::from_raw_os_error(e.errno.raw());
    let start = memfd::next_data(fd, 0).map_err(failed)?.unwrap_or(0);
    let mut from = File::from(fd.try_clone()?);
    from.seek(SeekFrom::Start(start))?;
    let mut to = BufWriter::new(File::create(path)?);
    if start > 0 {
        // Without the rest of the line that the hole cut, where that rest is a line's.
        let mut rest = Vec::new();
        Read::by_ref(&mut from).take(REST_MAX).read_to_end(&mut rest)?;
        let line = rest.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        from.seek(SeekFrom::Start(start + line as u64))?;
    }
    let (mut lines, mut line) = (BufReader::new(from), Vec::new());
    while Read::by_ref(&mut lines).take(LINE_MAX).read_until(b'\n', &mut line)? > 0 {
        let glued = std::str::from_utf8(&line).ok().and_then(runtime_line).unwrap_or(0);
        let (printed, rest) = line.split_at(glued);
        if glued > 0 {
            to.write_all(printed)?;
            to.write_all(b"\n")?;
        }
        to.write_all(rest)?;
        line.clear();
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use executor_rt::log::{Head, Level, Line, Stamp};

    use super::*;

    #[test]
    fn lines_name_node_and_id() {
        let head = Head {
            stamp: Stamp::default(),
            level: Level::Warn,
            stream: Stream::Run,
            node: "blur@1",
            trans_id: Some(42),
        };
        let line = Line::new(&head, format_args!("grey"));
        let line = LogLine::parse(std::str::from_utf8(line.as_bytes()).unwrap()).unwrap();
        let entry = Entry::Line(Box::new(line));
        let wall = "1970-01-01T00:00:00.000000000Z";
        let shown = text("blur@1", Output::Stderr, &entry);
        assert_eq!(shown, format!("{wall} WARN  blur@1 id 42: grey\n"));
        let raw = text("blur@1", Output::Stdout, &Entry::Raw("hi".to_owned()));
        assert_eq!(raw, "blur@1 stdout: hi\n");
        let gone = text("a", Output::Stderr, &Entry::Dropped(9));
        assert_eq!(gone, "a stderr: (9 older bytes are gone)\n");
    }

    #[test]
    fn a_kept_log_has_the_runtimes_lines_on_their_own() {
        let head = Head {
            stamp: Stamp::default(),
            level: Level::Error,
            stream: Stream::Runtime,
            node: "a",
            trans_id: None,
        };
        let line = Line::new(&head, format_args!("died"));
        let mut log = File::from(memfd::append_log("kept-glued").unwrap());
        log.write_all(b"one\nhalf").unwrap();
        log.write_all(line.as_bytes()).unwrap();
        log.write_all(b"\xff last").unwrap();
        let path = std::env::temp_dir().join(format!("dflow-kept-glued-{}", std::process::id()));
        copy(&OwnedFd::from(log), &path).unwrap();
        let kept = std::fs::read(&path).unwrap();
        let expected = [b"one\nhalf\n", line.as_bytes(), b"\xff last"].concat();
        assert_eq!(kept, expected);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_kept_log_starts_with_a_whole_line() {
        let mut log = File::from(memfd::append_log("kept").unwrap());
        for number in 0..1000 {
            writeln!(log, "line {number}").unwrap();
        }
        memfd::punch_hole(&log, 0, 4096).unwrap();
        let path = std::env::temp_dir().join(format!("dflow-kept-{}", std::process::id()));
        copy(&OwnedFd::from(log), &path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("line 4") && text.ends_with("line 999\n"), "{text}");
        std::fs::remove_file(path).unwrap();
    }
}
