//! Runs one command: prints it, passes its output on line by line, ends it at a deadline.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Lines that may wait between the reading threads and the printing one.
const LINES_WAITING: usize = 1024;

/// One line of a child's output.
#[derive(Debug)]
pub(crate) enum Line {
    /// From its standard output.
    Out(String),
    /// From its standard error.
    Err(String),
}

/// Runs `command` until it ends or `deadline` passes; every line goes to `sink`.
///
/// A command that outlives the deadline is killed with all its descendants and is an error.
pub(crate) fn run_lines(
    command: &mut Command,
    deadline: Option<Instant>,
    mut sink: impl FnMut(Line),
) -> Result<ExitStatus, String> {
    let shown = show(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{shown}: {error}"))?;
    let (lines, incoming) = mpsc::sync_channel(LINES_WAITING);
    if let Some(pipe) = child.stdout.take() {
        forward(pipe, Line::Out, lines.clone());
    }
    if let Some(pipe) = child.stderr.take() {
        forward(pipe, Line::Err, lines);
    }
    let outlived = loop {
        let patience = deadline
            .map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
        match incoming.recv_timeout(patience) {
            Ok(line) => sink(line),
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) if deadline.is_none() => {}
            Err(RecvTimeoutError::Timeout) => break true,
        }
    };
    if outlived {
        // Not joined: an orphan that escaped may hold the pipe open for ever.
        kill_tree(&child);
    }
    let status = child.wait().map_err(|error| format!("{shown}: {error}"))?;
    if outlived { Err(format!("`{shown}` ran out of time and was killed")) } else { Ok(status) }
}

/// Runs `command` with the terminal as it is (colours, progress bars); an error names it.
pub(crate) fn run_plain(command: &mut Command) -> Result<(), String> {
    let shown = show(command);
    eprintln!("$ {shown}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` failed: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

/// Standard output of a short command, or `None` when it is missing or fails.
pub(crate) fn output_of(program: impl AsRef<OsStr>, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The command as one would type it, without its environment.
pub(crate) fn show(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    command.get_args().fold(name, |shown, arg| format!("{shown} {}", arg.to_string_lossy()))
}

fn forward(
    pipe: impl std::io::Read + Send + 'static,
    wrap: fn(String) -> Line,
    lines: mpsc::SyncSender<Line>,
) {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(count) if count > 0) {
            let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            if lines.send(wrap(text)).is_err() {
                break;
            }
            bytes.clear();
        }
    });
}

/// Kills a child and its descendants: children first collected, then killed, so none escapes by
/// losing its parent. The child keeps the terminal's process group, so Ctrl-C reaches it too.
fn kill_tree(child: &Child) {
    let mut family = vec![child.id()];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(children_of(parent));
        next += 1;
    }
    let ids: Vec<String> = family.iter().map(u32::to_string).collect();
    let args: Vec<&str> = std::iter::once("-KILL").chain(ids.iter().map(String::as_str)).collect();
    output_of("kill", &args);
}

fn children_of(parent: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|id| id.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_arrive() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2"]);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = run_lines(&mut command, None, |line| match line {
            Line::Out(text) => out.push(text),
            Line::Err(text) => err.push(text),
        });
        assert!(status.unwrap().success());
        assert_eq!((out, err), (vec!["one".to_owned()], vec!["two".to_owned()]));
    }

    #[test]
    fn a_command_that_outlives_its_deadline_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; tail -f /dev/null; echo never"]);
        let mut lines = Vec::new();
        let deadline = Instant::now() + Duration::from_millis(300);
        let result = run_lines(&mut command, Some(deadline), |line| lines.push(line));
        assert!(result.unwrap_err().contains("ran out of time"));
        assert_eq!(lines.len(), 1);
    }
}
