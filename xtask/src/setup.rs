//! Debian packages that tests and the demo need: installed when root, named exactly when not.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::context::Context;
use crate::process;

/// A package and how one sees that it is there.
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is needed for.
    pub(crate) why: &'static str,
    /// Whether it is there.
    pub(crate) present: fn() -> bool,
}

const PACKAGES: &[Package] = &[
    Package {
        name: "fonts-dejavu-core",
        why: "pages are rendered in DejaVu Sans, Serif and Mono",
        present: || Path::new("/usr/share/fonts/truetype/dejavu/DejaVuSerif.ttf").exists(),
    },
    Package {
        name: "cmake",
        why: "functions in C++ and libflow_func.so are built with it",
        present: || process::output_of("cmake", &["--version"]).is_some(),
    },
    Package {
        name: "g++",
        why: "compiles functions in C++",
        present: || process::output_of("g++", &["--version"]).is_some(),
    },
    Package {
        name: "make",
        why: "cmake drives it",
        present: || process::output_of("make", &["--version"]).is_some(),
    },
    Package {
        name: "python3-venv",
        why: "pip fetches the pinned wheels that test images and models come out of",
        present: || {
            process::output_of("python3", &["-c", "import venv, ensurepip, zipfile"]).is_some()
        },
    },
];

/// Makes sure that every package is there; returns one line each.
pub(crate) fn run(_context: &Context) -> Result<Vec<String>, String> {
    ensure(PACKAGES)
}

/// The same of any list.
pub(crate) fn ensure(packages: &[Package]) -> Result<Vec<String>, String> {
    let absent: Vec<&Package> = packages.iter().filter(|package| !(package.present)()).collect();
    if !absent.is_empty() {
        install(&absent)?;
    }
    Ok(packages.iter().map(|package| format!("{}: present", package.name)).collect())
}

fn install(absent: &[&Package]) -> Result<(), String> {
    let names: Vec<&str> = absent.iter().map(|package| package.name).collect();
    let by_hand = format!("sudo apt-get install {}", names.join(" "));
    let reasons: Vec<String> =
        absent.iter().map(|package| format!("{} ({})", package.name, package.why)).collect();
    if process::output_of("id", &["-u"]).as_deref() != Some("0") {
        return Err(format!("missing: {}; run `{by_hand}` first", reasons.join(", ")));
    }
    for args in [
        &["update", "-q"][..],
        &[&["install", "-qy", "--no-install-recommends"], &names[..]].concat(),
    ] {
        let status = Command::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("`apt-get {}` failed; run `{by_hand}` by hand", args.join(" ")));
        }
    }
    match absent.iter().find(|package| !(package.present)()) {
        None => Ok(()),
        Some(package) => Err(format!("{} was installed but is still not found", package.name)),
    }
}
