//! Builds that are stopped, killed, flooded or outlived by what they start.
//!
//! What a project's CMakeLists.txt runs opens a FIFO: its lines tell that it runs, its end that
//! nobody who has it is left.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sys::clock::MonoTime;
use sys::pidfd::PidFd;
use sys::poll::{Events, PollFd, poll};
use sys::signal::Signal;

use super::build;
use super::cpp::root;
use super::support::{Folder, command};

/// `open(2)`: the reader's end opens before there is a writer.
const O_NONBLOCK: i32 = 0o4000;
/// When something that has to come does not.
const WATCHDOG_MS: u64 = 120_000;

/// Runs the script while cmake configures, and while it builds.
const CONFIGURE: &str = "execute_process(COMMAND sh ${CMAKE_SOURCE_DIR}/script.sh)";
const BUILD: &str = "add_custom_target(x ALL COMMAND sh ${CMAKE_SOURCE_DIR}/script.sh)";
/// Says who it is and who runs it, and has the FIFO from then on.
const UP: &str = "exec 3> $(dirname $0)/fifo; echo $$ $PPID >&3";

/// dflow, building a project.
struct Building {
    folder: Folder,
    dflow: Child,
    fifo: File,
}

fn start(name: &str, lists: &str, script: &str) -> Building {
    build::install(&root());
    let folder = Folder::new(name);
    folder.file("project/script.sh", script.as_bytes());
    let path = folder.path("project/fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let fifo = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&path).unwrap();
    let dflow = run(&folder, lists);
    Building { folder, dflow, fifo }
}

/// Starts dflow; what is not of the CMakeLists.txt stays as it is.
fn run(folder: &Folder, lists: &str) -> Child {
    let lists = format!("cmake_minimum_required(VERSION 3.5)\nproject(x NONE)\n{lists}\n");
    folder.file("project/CMakeLists.txt", lists.as_bytes());
    let lines = format!("identity;project: {}", folder.path("project"));
    let graph = folder.chain("stop", &[("one", &lines)], Path::new("libmine.so"));
    let mut run = command(&["run", &graph, "--input", &folder.file("a.bin", b"12345678")]);
    run.env("DFLOW_CACHE_DIR", folder.path("cache")).stdin(Stdio::null());
    run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait(what: &impl AsFd, name: &str) {
    let deadline = MonoTime::now().add_ms(WATCHDOG_MS);
    let ready = poll(&mut [PollFd::new(what, Events::IN)], Some(deadline));
    assert_eq!(ready, Ok(1), "{name}: nothing came");
}

/// Reads up to `end`, or to the end of the stream.
fn read(from: &mut (impl Read + AsFd), end: Option<&str>, name: &str) -> String {
    let mut text = Vec::new();
    loop {
        wait(from, name);
        let mut bytes = [0; 4096];
        let count = from.read(&mut bytes).unwrap();
        text.extend_from_slice(&bytes[..count]);
        let said = String::from_utf8_lossy(&text).into_owned();
        if count == 0 || end.is_some_and(|end| said.contains(end)) {
            assert!(end.is_none_or(|end| said.contains(end)), "{name}: {said}");
            return said;
        }
    }
}

impl Building {
    /// Until the script runs: its number and its parent's.
    fn up(&mut self) -> (u32, u32) {
        let line = read(&mut self.fifo, Some("\n"), "script");
        let mut numbers = line.split_whitespace().map(|number| number.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    }

    fn signal(&self, signal: Signal) {
        PidFd::open(self.dflow.id()).unwrap().signal(signal).unwrap();
    }

    /// Until it has ended: exit code and stderr.
    fn end(&mut self) -> (Option<i32>, String) {
        let err = read(self.dflow.stderr.as_mut().unwrap(), None, "dflow");
        wait(&PidFd::open(self.dflow.id()).unwrap(), "dflow");
        (self.dflow.wait().unwrap().code(), err)
    }

    /// Until nobody who has the FIFO is left.
    fn gone(&mut self) {
        read(&mut self.fifo, None, "what the build started");
    }

    fn kept(&self) -> usize {
        std::fs::read_dir(self.folder.path("cache/udf")).unwrap().count()
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        let _ended = self.dflow.kill();
        let _ended = self.dflow.wait();
    }
}

#[test]
fn one_signal_ends_a_silent_build_with_all_that_it_started() {
    let sleeps = format!("{UP}; exec sleep 1000");
    let deaf = format!("trap '' INT TERM HUP; {UP}; sleep 1000; sleep 1000");
    let own = format!("setsid -w sh -c '{UP}; exec sleep 1000' $0");
    for (case, lists, script, signal) in [
        ("configure", CONFIGURE, &sleeps, Signal::TERM),
        ("build", BUILD, &sleeps, Signal::INT),
        ("deaf", CONFIGURE, &deaf, Signal::TERM),
        ("session", BUILD, &own, Signal::TERM),
    ] {
        let mut building = start(&format!("cpp-stop-{case}"), lists, script);
        building.up();
        building.signal(signal);
        let (code, err) = building.end();
        assert_eq!(code, Some(130), "{case}: {err}");
        for word in ["start-up stopped", "node `one`"] {
            assert!(err.contains(word), "{case}: {word}: {err}");
        }
        // Where it takes: the end may come before the word.
        assert!(case != "deaf" || err.contains("stopping: ending the build;"), "{err}");
        building.gone();
        assert_eq!(building.kept(), 0, "{case}");
    }
}

#[test]
fn a_second_signal_ends_dflow_and_the_build_at_once() {
    let deaf = format!("trap '' INT TERM HUP; {UP}; sleep 1000; sleep 1000");
    let mut building = start("cpp-stop-two", BUILD, &deaf);
    building.up();
    building.signal(Signal::TERM);
    // Ended by itself meanwhile on a machine that is busy.
    let _gone = PidFd::open(building.dflow.id()).unwrap().signal(Signal::INT);
    let (code, err) = building.end();
    assert_eq!(code, Some(130), "{err}");
    building.gone();
}

#[test]
fn a_killed_dflow_takes_cmake_along_and_the_next_build_its_folder() {
    let mut building = start("cpp-stop-kill", CONFIGURE, &format!("{UP}; exec sleep 1000"));
    let (script, cmake) = building.up();
    let [script, cmake] = [script, cmake].map(|pid| PidFd::open(pid).unwrap());
    building.signal(Signal::KILL);
    wait(&cmake, "cmake");
    // What cmake had started is nobody's child now.
    script.signal(Signal::KILL).unwrap();
    building.gone();
    building.end();
    assert_eq!(building.kept(), 1, "what it built in");
    std::fs::remove_file(building.folder.path("project/fifo")).unwrap();
    building.dflow = run(&building.folder, "");
    let (code, err) = building.end();
    assert!(code == Some(1) && err.contains("left nothing in its RELEASE_DIR"), "{err}");
    assert_eq!(building.kept(), 0);
}

#[test]
fn a_child_in_the_background_holds_nothing_and_ends_with_the_build() {
    let script = format!("{UP}; sleep 1000 & exit 0");
    let mut building = start("cpp-stop-background", BUILD, &script);
    let (code, err) = building.end();
    // The sleep has cmake's stdout.
    assert!(code == Some(1) && err.contains("the build went well and left nothing"), "{err}");
    building.up();
    building.gone();
}

#[test]
fn what_a_build_says_without_end_is_not_kept() {
    let much = 64_000_000;
    let script = format!("{UP}; head -c {much} /dev/zero; echo; echo said >&3; exec sleep 1000");
    let mut building = start("cpp-stop-flood", BUILD, &script);
    building.up();
    read(&mut building.fifo, Some("said"), "script");
    let resident = sys::procfs::resident(building.dflow.id()).unwrap();
    assert!(resident < much / 2, "{resident}");
    building.signal(Signal::TERM);
    let (code, err) = building.end();
    assert!(code == Some(130) && err.len() < 4096, "{err}");
}

#[test]
fn a_build_that_takes_says_what_it_runs() {
    let mut building = start("cpp-stop-slow", CONFIGURE, &format!("{UP}; exec sleep 1000"));
    building.up();
    let stderr = building.dflow.stderr.as_mut().unwrap();
    let said = read(stderr, Some("still running ("), "dflow");
    let line = said.lines().find(|line| line.contains("still running (")).unwrap();
    assert!(line.starts_with("build one: still running (1"), "{line}");
    building.signal(Signal::TERM);
    let (code, err) = building.end();
    assert_eq!(code, Some(130), "{said}{err}");
    let said = format!("{said}{err}");
    assert!(said.contains(&format!(" s): cmake -S {}", building.folder.path("project"))), "{said}");
}
