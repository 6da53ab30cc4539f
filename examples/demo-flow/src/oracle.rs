//! The oracle: a Python package on the same bytes, by a script in a virtual environment.
//!
//! `cargo xtask` makes the environment and unpacks the package; it names them in `DFLOW_ORACLE`
//! (the interpreter) and `DFLOW_MODELS_DIR`. A script gets files on its standard input, each with
//! its length before it (8 bytes, little-endian), and answers each as it likes.

use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// Where the oracle's parts are.
#[derive(Debug, Clone)]
pub struct Oracle {
    python: PathBuf,
    models: PathBuf,
}

/// What a script says.
pub type Answers = BufReader<ChildStdout>;

impl Oracle {
    /// Finds the interpreter, and the package, which has a file `part`.
    ///
    /// # Errors
    /// What is missing and what makes it.
    pub fn find(part: &str) -> Result<Oracle, String> {
        let python = place("DFLOW_ORACLE", Path::is_file)?;
        let models = place("DFLOW_MODELS_DIR", |dir| dir.join(part).is_file())?;
        Ok(Oracle { python, models })
    }

    /// Asks a script about every file, in order; `args` follow the folder of the packages, `answer`
    /// reads one answer, or `None` at their end.
    ///
    /// # Errors
    /// The script fails or answers something else than expected.
    pub fn ask<T>(
        &self,
        script: &str,
        args: &[String],
        files: &[&[u8]],
        mut answer: impl FnMut(&mut Answers) -> Result<Option<T>, String>,
    ) -> Result<Vec<T>, String> {
        let mut running = self.start(script, args)?;
        let answers: Result<Vec<T>, String> =
            files.iter().map(|file| running.ask(file, &mut answer)).collect();
        running.end().and(answers)
    }

    /// Starts a script, which then waits for files; `args` follow the folder of the packages.
    ///
    /// # Errors
    /// The interpreter can't be started.
    pub fn start(&self, script: &str, args: &[String]) -> Result<Running, String> {
        let mut command = Command::new(&self.python);
        command.args(["-c", script]).arg(&self.models).args(args);
        Running::of(&mut command)
    }
}

/// A script that was started: it works on one file at a time, and on none in between.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    output: Answers,
    asked: usize,
}

impl Running {
    fn of(command: &mut Command) -> Result<Running, String> {
        let name = format!("oracle ({})", command.get_program().display());
        let wrong = |error: &dyn std::fmt::Display| format!("{name}: {error}");
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| wrong(&error))?;
        let output = child.stdout.take().ok_or_else(|| wrong(&"no pipe"))?;
        let (input, output) = (child.stdin.take(), BufReader::new(output));
        Ok(Running { name, child, input, output, asked: 0 })
    }

    /// Asks about one file; `answer` reads the answer, or `None` where there is no more.
    ///
    /// # Errors
    /// The script ended, or answered something else than expected.
    pub fn ask<T>(
        &mut self,
        file: &[u8],
        mut answer: impl FnMut(&mut Answers) -> Result<Option<T>, String>,
    ) -> Result<T, String> {
        self.asked += 1;
        if let Some(input) = &mut self.input {
            // A script that ended is told by its answer, which is not there.
            let _sent = input
                .write_all(&(file.len() as u64).to_le_bytes())
                .and_then(|()| input.write_all(file));
        }
        let answer = answer(&mut self.output);
        let answer = answer.map_err(|error| format!("{}: {error}", self.name))?;
        answer.ok_or_else(|| {
            let status = self.wait().map_or_else(|error| error, |status| status.to_string());
            format!("{}: {status}, no answer to page {}", self.name, self.asked)
        })
    }

    /// No more files: waits for the script's end.
    ///
    /// # Errors
    /// It failed.
    pub fn end(mut self) -> Result<(), String> {
        let status = self.wait()?;
        let fault = || Err(format!("{}: {status} after {} pages", self.name, self.asked));
        if status.success() { Ok(()) } else { fault() }
    }

    fn wait(&mut self) -> Result<ExitStatus, String> {
        self.input = None;
        self.child.wait().map_err(|error| format!("{}: {error}", self.name))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Without input a script ends.
        let _ended = self.wait();
    }
}

fn place(variable: &str, is_there: impl Fn(&Path) -> bool) -> Result<PathBuf, String> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.clone().filter(|path| is_there(path)).ok_or_else(|| {
        let path = path.map_or("not set".to_owned(), |path| path.display().to_string());
        format!("{variable} ({path}): `cargo xtask test setup` makes it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;

    fn line(output: &mut Answers) -> Result<Option<String>, String> {
        let mut line = String::new();
        let read = output.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok((read > 0).then(|| line.trim().to_owned()))
    }

    #[test]
    fn an_oracle_that_ends_early_is_an_error_that_counts() {
        let mut running = Running::of(Command::new("sh").args(["-c", "exit 3"])).expect("starts");
        let error = running.ask(&vec![0; 1 << 20], line).expect_err("no answer");
        assert!(error.contains("exit status: 3, no answer to page 1"), "{error}");
        let error = running.end().expect_err("it failed");
        assert!(error.contains("exit status: 3 after 1 pages"), "{error}");
    }

    #[test]
    fn answers_come_one_by_one() {
        let script = "head -c 9 >/dev/null; echo one; head -c 10 >/dev/null; echo two";
        let mut running = Running::of(Command::new("sh").args(["-c", script])).expect("starts");
        assert_eq!(running.ask(b"a", line).expect("one"), "one");
        assert_eq!(running.ask(b"bb", line).expect("two"), "two");
        running.end().expect("ends well");
    }
}
