//! A device of this machine: found by its nodes and by the vendor's runtime library. This version
//! has no binding to that library, so a device that is there makes every case fail, by name.
//!
//! Nothing here can make a case pass: what would is an implementation of [`Backend::load`] and
//! [`Backend::flow`] that runs models on the device (docs/testing.md says how).

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use sys::dylib::Library;

use super::onnx::Onnx;
use super::{Backend, Flow, Loaded, Presence, Step, Stop};

/// The vendor's runtime library.
const LIBRARY: &str = "libascendcl.so";
/// Why no case passes.
const NO_BINDING: &str = "dflow has no binding to this runtime yet";

/// An Ascend NPU.
#[derive(Clone, Debug)]
pub struct Ascend {
    /// The tests were asked to use it.
    wanted: bool,
    /// Folder of device nodes.
    nodes: PathBuf,
    /// Where the library is looked for, in order.
    libraries: Vec<PathBuf>,
    /// What is called of it first; a file of its name without this is something else.
    entry: &'static CStr,
}

impl Ascend {
    /// As this process's environment says: `HIL=1` asks for it; the library is looked for by the
    /// loader, then in the toolkit that `ASCEND_HOME_PATH` names, then where one is installed.
    #[must_use]
    pub fn of_environment() -> Self {
        let home = std::env::var_os("ASCEND_HOME_PATH").map(PathBuf::from);
        let installed = PathBuf::from("/usr/local/Ascend/ascend-toolkit/latest");
        let toolkits = home.into_iter().chain([installed]);
        let libraries = toolkits.map(|toolkit| toolkit.join("lib64").join(LIBRARY));
        Self {
            wanted: std::env::var_os("HIL").is_some_and(|value| value == "1"),
            nodes: PathBuf::from("/dev"),
            libraries: std::iter::once(PathBuf::from(LIBRARY)).chain(libraries).collect(),
            entry: c"aclInit",
        }
    }

    /// Names of the device nodes `davinci0`, `davinci1`, …
    fn devices(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.nodes).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let numbered = |name: &String| {
            let number = name.strip_prefix("davinci");
            number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let mut devices: Vec<String> = names.filter(numbered).collect();
        devices.sort();
        devices
    }

    /// The first library that can be loaded and is the runtime; why each before it is not.
    fn runtime(&self) -> Result<&Path, String> {
        let mut refused = Vec::new();
        for path in &self.libraries {
            match Library::open(path) {
                Ok(library) if library.address(self.entry).is_some() => return Ok(path),
                Ok(_) => refused.push(format!("{}: no symbol {:?}", path.display(), self.entry)),
                Err(error) => refused.push(error.to_string()),
            }
        }
        Err(refused.join("; "))
    }
}

impl Backend for Ascend {
    fn name(&self) -> &'static str {
        "hil ascend"
    }

    fn presence(&self) -> Presence {
        let nodes = self.nodes.display();
        if !self.wanted {
            return Presence::Absent("not asked for: HIL=1 is not set".to_owned());
        }
        let devices = self.devices();
        if devices.is_empty() {
            let manager = self.nodes.join("davinci_manager").exists();
            let driver = if manager { ", though davinci_manager is there" } else { "" };
            return Presence::Absent(format!("no device: no {nodes}/davinci0, …{driver}"));
        }
        let found = devices.join(", ");
        Presence::Unusable(match self.runtime() {
            Ok(path) => {
                format!("{nodes} has {found} and {} loads, but {NO_BINDING}", path.display())
            }
            Err(why) => format!("{nodes} has {found}, but no runtime library loads: {why}"),
        })
    }

    fn load(&self, _models: &[Onnx]) -> Step<Box<dyn Loaded>> {
        Err(Stop::failed(NO_BINDING))
    }

    fn flow(&self, _model: &Onnx) -> Step<Box<dyn Flow>> {
        Err(Stop::failed(NO_BINDING))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;
    use crate::conformance::cases;
    use crate::conformance::run::{Report, run};

    /// A folder with these empty files in it.
    struct Nodes(PathBuf);

    impl Nodes {
        fn new(name: &str, files: &[&str]) -> Self {
            let folder = std::env::temp_dir().join(format!("hil-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            files.iter().for_each(|file| std::fs::write(folder.join(file), "").unwrap());
            Self(folder)
        }

        fn report(&self, wanted: bool, library: &str, entry: &'static CStr) -> Report {
            let (nodes, libraries) = (self.0.clone(), vec![PathBuf::from(library)]);
            let report = run(&Ascend { wanted, nodes, libraries, entry }, &cases::all(), "");
            assert_eq!(report.passed.len(), 0, "{report}");
            report
        }
    }

    impl Drop for Nodes {
        fn drop(&mut self) {
            let _gone = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn without_a_device_or_unasked_every_case_is_skipped_with_the_reason() {
        let (none, some) = (Nodes::new("none", &["null"]), Nodes::new("some", &["davinci0"]));
        let manager = Nodes::new("manager", &["davinci_manager", "davincix", "davinci"]);
        let count = cases::all().len();
        for (nodes, wanted, why) in [
            (none, true, "no device: no "),
            (manager, true, "though davinci_manager is there"),
            (some, false, "HIL=1 is not set"),
        ] {
            // A library that would load changes nothing.
            let report = nodes.report(wanted, "libc.so.6", c"abs");
            assert_eq!((report.failed.len(), report.skipped.len()), (0, count), "{report}");
            let text = report.to_string();
            assert!(text.contains(why), "{text}");
            let last = format!("passed 0 failed 0 skipped {count}");
            assert!(text.ends_with(&last), "{text}");
        }
    }

    #[test]
    fn a_device_that_cannot_be_driven_fails_every_case() {
        let nodes = Nodes::new("device", &["davinci10", "davinci0", "davinci_manager"]);
        let count = cases::all().len();
        for (library, entry, why) in [
            ("/nonexistent/libascendcl.so", c"aclInit", "no runtime library loads: dlopen: /non"),
            ("libc.so.6", c"aclInit", "libc.so.6: no symbol \"aclInit\""),
            ("libc.so.6", c"abs", "libc.so.6 loads, but dflow has no binding"),
        ] {
            let report = nodes.report(true, library, entry);
            assert_eq!((report.failed.len(), report.skipped.len()), (count, 0), "{report}");
            let text = report.to_string();
            assert!(text.contains("has davinci0, davinci10"), "{text}");
            assert!(text.contains(why), "{text}");
        }
    }
}
