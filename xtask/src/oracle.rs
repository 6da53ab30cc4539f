//! The oracle: a virtual environment with what the Python packages run on that results are compared
//! with. Only tests and figures that compare need it; the product never does.

use std::path::Path;

use crate::context::Context;
use crate::{process, wheels};

const REQUIREMENTS: &str = include_str!("../oracle.txt");

/// Pythons for which [`REQUIREMENTS`] has hashes.
const PYTHONS: &[&str] = &["3.11", "3.12", "3.13"];

/// Prints version, machine and C library of an interpreter.
const PLATFORM: &str =
    "import platform as p; print(*p.python_version_tuple()[:2], sep='.', end=' ')
print(p.machine(), p.libc_ver()[0] or 'other-libc')";

/// Why the environment can't be made here, or `None` when it can.
pub(crate) fn unsupported() -> Option<String> {
    reason(process::output_of("python3", &["-c", PLATFORM]).as_deref())
}

fn reason(platform: Option<&str>) -> Option<String> {
    let found = platform.unwrap_or("no python3");
    let parts: Vec<&str> = found.split(' ').collect();
    if matches!(parts[..], [python, "x86_64", "glibc"] if PYTHONS.contains(&python)) {
        return None;
    }
    let wanted = PYTHONS.join(", ");
    Some(format!("oracle: xtask/oracle.txt pins Python {wanted} on x86_64 glibc, found {found}"))
}

/// Makes sure that the environment is there; returns one line.
pub(crate) fn make(context: &Context) -> Result<Vec<String>, String> {
    if let Some(reason) = unsupported() {
        return Err(reason);
    }
    let venv = context.cache().join("oracle");
    let python = context.oracle();
    // A venv is bound to the interpreter that it was made with.
    let version = process::output_of("python3", &["--version"]).unwrap_or_default();
    let wanted = format!("{version}\n{REQUIREMENTS}");
    if !wheels::is_complete(&venv, &wanted) || process::output_of(&python, &["-V"]).is_none() {
        wheels::remove_dir(&venv)?;
        wheels::quiet(context, Path::new("python3"), &["-m", "venv", &venv.to_string_lossy()])?;
        let requirements = context.root.join("xtask/oracle.txt");
        let mut args = vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        args.extend(["--no-deps", "--require-hashes", "--only-binary=:all:", "--no-compile"]);
        let requirements = requirements.to_string_lossy();
        args.extend(["-r", &requirements]);
        wheels::quiet(context, &python, &args)?;
        wheels::set_complete(&venv, &wanted)?;
    }
    Ok(vec![format!("{}: {version}, onnxruntime, OpenCV", python.display())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_pythons_and_machines_are_named() {
        assert_eq!(reason(Some("3.12 x86_64 glibc")), None);
        for other in ["3.10 x86_64 glibc", "3.12 aarch64 glibc", "3.12 x86_64 other-libc"] {
            assert!(reason(Some(other)).expect("refused").ends_with(&format!("found {other}")));
        }
        assert!(reason(None).expect("refused").ends_with("found no python3"));
    }
}
