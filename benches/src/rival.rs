//! A rival as a side: a process of `benches/rivals` that runs blocks on request.
//!
//! ```text
//! rival → us    ready              once, after its set-up
//! us → rival    block N            N rounds, please
//! rival → us    ns_per_hop X
//! us → rival    quit               or the end of its input
//! ```

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Failure;
use crate::blocks::Side;

/// A running rival; it sleeps in a read of its input between blocks.
#[derive(Debug)]
pub struct Rival {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Rival {
    /// Starts `folder/program args…` and waits for its `ready`; `name` is the key of its samples.
    ///
    /// # Errors
    /// The program is missing (the text says how to build it) or does not speak the protocol.
    pub fn start(
        name: &str,
        folder: &Path,
        program: &str,
        args: &[String],
    ) -> Result<Self, Failure> {
        let path = folder.join(program);
        let mut child = Command::new(&path)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                let hint = "cargo build --release --manifest-path benches/rivals/Cargo.toml";
                format!("rival {}: {error}; build it with `{hint}`", path.display())
            })?;
        let output = child.stdout.take().ok_or("a rival without an output")?;
        let input = child.stdin.take();
        let mut rival =
            Self { name: name.to_owned(), child, input, output: BufReader::new(output) };
        match rival.answer()?.as_str() {
            "ready" => Ok(rival),
            other => Err(format!("rival {program} said {other:?}, expected \"ready\"").into()),
        }
    }

    fn answer(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            let status = self.child.wait()?;
            return Err(format!("rival {:?} ended early with {status}", self.name).into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Side for Rival {
    fn name(&self) -> &str {
        &self.name
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        let input = self.input.as_mut().ok_or("a rival that was already ended")?;
        writeln!(input, "block {rounds}")?;
        let line = self.answer()?;
        line.strip_prefix("ns_per_hop ")
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| format!("found {line:?}, expected \"ns_per_hop X\"").into())
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // The end of its input tells the rival to clean up after itself and end. There is nobody to
        // tell if the wait fails: the figure is complete by then.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
