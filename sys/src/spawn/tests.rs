//! Tests of spawning, and helpers for the tests of other subjects.
#![allow(unsafe_code, reason = "queries of descriptor flags")]

use std::io::{PipeReader, Write, pipe};

use super::*;
use crate::memfd;
use crate::pidfd::Event;
use crate::signal::{block, ignore};

fn spawn<'a>(program: &'a str, args: &'a [String]) -> Spawn<'a> {
    Spawn {
        program: Path::new(program),
        args,
        env: &[],
        inherit: &[],
        stdin: None,
        stdout: None,
        stderr: None,
        death_signal: Some(Signal::KILL),
    }
}

fn script(text: &str) -> [String; 2] {
    ["-c".to_owned(), text.to_owned()]
}

/// A shell that runs `text`.
pub(crate) fn sh(text: &str) -> Child {
    spawn("/bin/sh", &script(text)).spawn().expect("spawn sh")
}

/// A process that does nothing until it gets a signal.
pub(crate) fn sleeper() -> Child {
    spawn("/bin/sleep", &["1000".to_owned()]).spawn().expect("spawn sleep")
}

/// What a shell prints and how it ends.
fn output(text: &str) -> (String, Event) {
    let (reader, writer) = pipe().expect("pipe");
    let args = script(text);
    let what = Spawn { stdout: Some(writer.as_fd()), ..spawn("/bin/sh", &args) };
    let child = what.spawn().expect("spawn");
    drop(writer);
    (read(reader), child.pidfd.wait_end().expect("wait"))
}

#[test]
fn arguments_and_environment_are_exactly_the_given() {
    let env = [("A".to_owned(), "1 2".to_owned()), ("B".to_owned(), String::new())];
    let (reader, writer) = pipe().expect("pipe");
    let what = Spawn { stdout: Some(writer.as_fd()), env: &env, ..spawn("/usr/bin/env", &[]) };
    let child = what.spawn().expect("spawn");
    drop(writer);
    assert_eq!(read(reader), "A=1 2\nB=\n");
    assert_eq!(child.pidfd.wait_end(), Ok(Event::Exited(0)));
    assert_eq!(output("echo $0"), ("/bin/sh\n".to_owned(), Event::Exited(0)));
}

#[test]
fn a_failed_exec_is_an_error_and_leaves_no_child() {
    let error = spawn("/nonexistent/program", &[]).spawn().expect_err("no such file");
    assert_eq!(error.to_string(), "execve: ENOENT (No such file or directory)");
    let error = spawn("/etc/passwd", &[]).spawn().expect_err("not executable");
    assert_eq!(error, SysError::new("execve", Errno::ACCES));
    let error = spawn("/bin/sh", &["a\0b".to_owned()]).spawn().expect_err("zero byte");
    assert_eq!(error.errno, Errno::INVAL);
}

#[test]
fn inherited_descriptors_keep_their_number_and_others_are_closed() {
    let kept = memfd::from_bytes("kept", b"kept").expect("memfd");
    let other = memfd::from_bytes("other", b"other").expect("memfd");
    let text = format!(
        "cat /proc/self/fd/{}; test -e /proc/$$/fd/{} && echo leaked",
        kept.as_raw_fd(),
        other.as_raw_fd()
    );
    let list = [kept.as_fd()];
    let (reader, writer) = pipe().expect("pipe");
    let args = script(&text);
    let what = Spawn { stdout: Some(writer.as_fd()), inherit: &list, ..spawn("/bin/sh", &args) };
    let child = what.spawn().expect("spawn");
    drop(writer);
    assert_eq!(read(reader), "kept");
    assert!(child.pidfd.wait_end().expect("wait").is_end());
    // SAFETY: a query about an open descriptor.
    let flags = unsafe { libc::fcntl(kept.as_raw_fd(), libc::F_GETFD) };
    assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC, "the parent's flag must stay");
}

fn read(mut reader: PipeReader) -> String {
    let mut printed = String::new();
    reader.read_to_string(&mut printed).expect("read");
    printed
}

#[test]
fn standard_streams_can_be_given() {
    let (stdin, mut stdin_writer) = pipe().expect("pipe");
    let (stdout, stdout_writer) = pipe().expect("pipe");
    let (stderr, stderr_writer) = pipe().expect("pipe");
    let args = script("read line; echo out $line; echo err $line >&2");
    let what = Spawn {
        stdin: Some(stdin.as_fd()),
        stdout: Some(stdout_writer.as_fd()),
        stderr: Some(stderr_writer.as_fd()),
        ..spawn("/bin/sh", &args)
    };
    let child = what.spawn().expect("spawn");
    drop((stdout_writer, stderr_writer));
    stdin_writer.write_all(b"x\n").expect("write");
    assert_eq!((read(stdout), read(stderr)), ("out x\n".to_owned(), "err x\n".to_owned()));
    assert_eq!(child.pidfd.wait_end(), Ok(Event::Exited(0)));
}

#[test]
fn one_descriptor_can_be_both_output_streams() {
    let (reader, writer) = pipe().expect("pipe");
    let args = script("echo out; echo err >&2");
    let both = Some(writer.as_fd());
    let what = Spawn { stdout: both, stderr: both, ..spawn("/bin/sh", &args) };
    let child = what.spawn().expect("spawn");
    drop(writer);
    assert_eq!(read(reader), "out\nerr\n");
    assert_eq!(child.pidfd.wait_end(), Ok(Event::Exited(0)));
}

#[test]
fn the_child_has_an_empty_mask_and_default_dispositions() {
    let parent = std::thread::spawn(|| {
        block(&[Signal::TERM, Signal::USR1]).expect("block");
        ignore(Signal::TTOU).expect("ignore");
        output("grep -E '^Sig(Blk|Ign):' /proc/self/status").0
    });
    let printed = parent.join().expect("thread");
    // Signals 32 and 33 are libc's own, which it lets nobody reset.
    let libc_own = 0x1_8000_0000;
    for line in printed.lines() {
        let bits = line.split_whitespace().last().expect("a mask");
        let bits = u64::from_str_radix(bits, 16).expect("hexadecimal");
        assert_eq!(bits & !libc_own, 0, "{line}");
    }
    assert_eq!(printed.lines().count(), 2);
}

#[test]
fn the_child_dies_with_the_thread_that_started_it() {
    let thread = std::thread::spawn(sleeper);
    let child = thread.join().expect("thread");
    let end = Event::Signalled { signal: Signal::KILL, core: false };
    assert_eq!(child.pidfd.wait_end(), Ok(end));
}

#[test]
fn a_standard_stream_cannot_be_inherited_by_number() {
    let stdin = std::io::stdin();
    let list = [stdin.as_fd()];
    let error = Spawn { inherit: &list, ..spawn("/bin/sh", &[]) }.spawn().expect_err("refused");
    assert_eq!(error, SysError::new("spawn(inherit)", Errno::INVAL));
}

#[test]
fn reports_are_read_back() {
    assert_eq!(child::decode(&[]), None);
    assert_eq!(child::decode(&[5, 0, 0, 0]), None);
    assert_eq!(child::decode(&[99, 0, 0, 0, 2, 0, 0, 0]), None);
    let execve = child::decode(&[5, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(execve, Some(SysError::new("execve", Errno::NOENT)));
}

#[test]
fn a_commands_group_is_signalled_as_a_whole() {
    block(&[Signal::TERM]).expect("block");
    let (mut reader, writer) = pipe().expect("pipe");
    let mut command = Command::new("/bin/sh");
    // The second sleeps in the group of the first, and has the pipe.
    command.args(["-c", "sleep 1000 & echo up; exec sleep 1000"]).stdout(writer);
    lead_group(&mut command, Signal::KILL);
    let mut child = command.spawn().expect("spawn");
    drop(command);
    reader.read_exact(&mut [0; 3]).expect("both run");
    process::signal_group(child.id(), Signal::TERM).expect("signal");
    // Ends as soon as nobody holds it: TERM was not blocked there.
    assert_eq!(reader.read_to_end(&mut Vec::new()).expect("read"), 0);
    let end = std::os::unix::process::ExitStatusExt::signal(&child.wait().expect("wait"));
    assert_eq!(end, Some(Signal::TERM.raw()));
    for nobody in [0, 1, u32::MAX] {
        let refused = process::signal_group(nobody, Signal::TERM).expect_err("no leader");
        assert_eq!(refused.errno, Errno::INVAL);
    }
}

#[test]
fn a_command_ends_with_the_thread_that_started_it() {
    let (mut reader, writer) = pipe().expect("pipe");
    let starter = std::thread::spawn(move || {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec sleep 1000"]).stdout(writer);
        lead_group(&mut command, Signal::KILL);
        command.spawn().expect("spawn")
    });
    let mut child = starter.join().expect("join");
    assert_eq!(reader.read_to_end(&mut Vec::new()).expect("read"), 0);
    assert!(!child.wait().expect("wait").success());
}
