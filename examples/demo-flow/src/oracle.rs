//! The oracle: a Python package on the same bytes, by a script in a virtual environment.
//!
//! `cargo xtask` makes the environment and unpacks the package; it names them in `DFLOW_ORACLE`
//! (the interpreter) and `DFLOW_MODELS_DIR`. A script gets files on its standard input, each with
//! its length before it (8 bytes, little-endian), and answers each as it likes.

use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

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
        answer: impl FnMut(&mut Answers) -> Result<Option<T>, String>,
    ) -> Result<Vec<T>, String> {
        let mut command = Command::new(&self.python);
        command.args(["-c", script]).arg(&self.models).args(args);
        let answers = ask(&mut command, files, answer);
        answers.map_err(|error| format!("oracle ({}): {error}", self.python.display()))
    }
}

fn place(variable: &str, is_there: impl Fn(&Path) -> bool) -> Result<PathBuf, String> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.clone().filter(|path| is_there(path)).ok_or_else(|| {
        let path = path.map_or("not set".to_owned(), |path| path.display().to_string());
        format!("{variable} ({path}): `cargo xtask test setup` makes it")
    })
}

fn ask<T>(
    command: &mut Command,
    files: &[&[u8]],
    mut answer: impl FnMut(&mut Answers) -> Result<Option<T>, String>,
) -> Result<Vec<T>, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("no pipes".to_owned());
    };
    let answers = std::thread::scope(|scope| {
        // An oracle that ends early is told by what it did not answer.
        scope.spawn(move || {
            files.iter().try_for_each(|file| {
                input.write_all(&(file.len() as u64).to_le_bytes())?;
                input.write_all(file)
            })
        });
        let mut output = BufReader::new(output);
        let mut answers = Vec::with_capacity(files.len());
        while let Some(one) = answer(&mut output)? {
            answers.push(one);
        }
        Ok::<_, String>(answers)
    });
    let status = child.wait().map_err(|error| error.to_string())?;
    let answers = answers?;
    if !status.success() || answers.len() != files.len() {
        return Err(format!("{status}, {} answers to {} pages", answers.len(), files.len()));
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;

    #[test]
    fn an_oracle_that_ends_early_is_an_error_that_counts() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let file = vec![0; 1 << 20];
        let none = |_: &mut Answers| Ok(None::<()>);
        let error = ask(&mut command, &[&file, &file], none).expect_err("no answers");
        assert!(error.contains("exit status: 3, 0 answers to 2 pages"), "{error}");
    }

    #[test]
    fn answers_come_in_the_order_of_the_files() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat >/dev/null; echo one; echo two"]);
        let line = |output: &mut Answers| {
            let mut line = String::new();
            let read = output.read_line(&mut line).map_err(|error| error.to_string())?;
            Ok((read > 0).then(|| line.trim().to_owned()))
        };
        let answers = ask(&mut command, &[b"a", b"b"], line).expect("two");
        assert_eq!(answers, ["one", "two"]);
    }
}
