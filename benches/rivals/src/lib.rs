//! What the rivals share: the block protocol, pinning and the echo child.
//!
//! A rival is started once, does all its set-up, prints `ready` and then sleeps in a read of its
//! standard input. `block N` runs N rounds and prints `ns_per_hop X`; `quit` or the end of the
//! input ends it. Between blocks nothing of a rival runs, so that the other side of the comparison
//! has the cores for itself.

#![deny(unsafe_code)]

mod os;

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

pub use os::pin;

/// What a rival's `main` returns on failure.
pub type Failure = Box<dyn std::error::Error>;

/// Rounds run before the clock starts, in each block: wake-up of the echo side, caches, branch
/// predictors.
pub const WARM_ROUNDS: u64 = 256;

/// Serves blocks until `quit` or the end of the input; `run(n)` returns nanoseconds per hop.
pub fn serve(mut run: impl FnMut(u64) -> Result<f64, Failure>) -> Result<(), Failure> {
    let mut output = io::stdout();
    writeln!(output, "ready")?;
    for line in io::stdin().lock().lines() {
        match request(&line?)? {
            Some(rounds) => writeln!(output, "ns_per_hop {}", run(rounds)?)?,
            None => break,
        }
        output.flush()?;
    }
    Ok(())
}

/// Reads one line of the protocol: `Some(n)` of `block n`, `None` of `quit`.
pub fn request(line: &str) -> Result<Option<u64>, Failure> {
    match line.trim().split_once(' ') {
        Some(("block", n)) => match n.parse() {
            Ok(rounds) if rounds > 0 => Ok(Some(rounds)),
            _ => Err(format!("block needs a positive count, found {n:?}").into()),
        },
        None if line.trim() == "quit" => Ok(None),
        _ => Err(format!("expected `block N` or `quit`, found {line:?}").into()),
    }
}

/// The other process of a ping-pong: this binary again with the argument `echo` put first.
#[derive(Debug)]
pub struct Echo {
    child: Child,
    input: ChildStdin,
}

impl Echo {
    /// Starts the echo process and waits until it has printed `ready`.
    pub fn start(args: &[String]) -> Result<Self, Failure> {
        let mut child = Command::new("/proc/self/exe")
            .arg("echo")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("the echo process has no input")?;
        let output = child.stdout.take().ok_or("the echo process has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.trim() != "ready" {
            return Err(format!("the echo process said {line:?} where `ready` was expected").into());
        }
        Ok(Self { child, input })
    }

    /// Asks for `rounds` echoes; returns at once.
    pub fn begin(&mut self, rounds: u64) -> Result<(), Failure> {
        writeln!(self.input, "block {rounds}")?;
        Ok(())
    }

    /// Ends the echo process and reaps it.
    pub fn finish(mut self) -> Result<(), Failure> {
        drop(self.input);
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the echo process ended with {status}").into())
        }
    }
}

/// The echo process: prints `ready`, then runs `echo(n)` for each `block n`.
pub fn serve_echo(mut echo: impl FnMut(u64) -> Result<(), Failure>) -> Result<(), Failure> {
    os::die_with_parent()?;
    println!("ready");
    for line in io::stdin().lock().lines() {
        match request(&line?)? {
            Some(rounds) => echo(rounds)?,
            None => break,
        }
    }
    Ok(())
}
