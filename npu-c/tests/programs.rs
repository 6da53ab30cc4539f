//! C programs over the library: compiled with `cc`, linked with it, run. Each checks its own
//! results, and says by its status whether they are right.

#![allow(clippy::unwrap_used, reason = "what the helpers of tests do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use npu::DataType;
use npu::ops::Broadcast;
use npu::ops::add::Add;
use npu::program::{Place, Writer};
use npu::shape::Shape;
use npu::tensor::TensorInfo;

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where this test's programs are, and the library that cargo built for it.
fn folder() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn run(command: &mut Command) -> Output {
    let hint = "the tests of the C library need the packages gcc, g++ and binutils";
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: {hint}"))
}

#[track_caller]
fn expect_success(command: &mut Command) -> String {
    let done = run(command);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {}\n{said}", done.status);
    String::from_utf8(done.stdout).unwrap()
}

/// Compiles `tests/c/NAME.c` and runs it.
#[track_caller]
fn program(name: &str, args: &[&Path]) -> String {
    let (code, library) = (source(&format!("tests/c/{name}.c")), folder());
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-c"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-g", "-Wall", "-Wextra", "-Werror"]);
    cc.arg("-pthread")
        .arg("-pedantic")
        .arg("-I")
        .arg(source("include"))
        .arg(code)
        .arg("-o")
        .arg(&binary);
    cc.arg("-L").arg(&library).arg("-ldflow_acl");
    cc.arg(format!("-Wl,-rpath,{}", library.display()));
    expect_success(&mut cc);
    // Cargo names the folder of what `cargo build` made last, which may be older than this test.
    expect_success(Command::new(&binary).args(args).env_remove("LD_LIBRARY_PATH"))
}

/// `y = x + x`, 16 floats, in a file of its own.
fn doubler(name: &str) -> PathBuf {
    let info = TensorInfo::new(DataType::FLOAT, Shape::new(&[16]).unwrap());
    let mut writer = Writer::new();
    let x = writer.tensor("x", &info, Place::Input(0));
    let y = writer.tensor("y", &info, Place::Output(0));
    writer.input(x);
    writer.output(y);
    writer.task("double", &Add::new(Broadcast::Numpy), &[x, x], &[y], (0, 0));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, &writer.finish(0).unwrap()[..]).unwrap();
    path
}

#[test]
fn scenario_1_a_model_built_by_hand_runs_synchronously() {
    program("build", &[&doubler("build.om")]);
}

#[test]
fn scenario_2_a_model_runs_asynchronously() {
    program("async", &[]);
}

#[test]
fn captures_groups_and_conditions() {
    program("capture", &[]);
}

#[test]
fn compiled_programs() {
    program("program", &[&doubler("program.om")]);
}

#[test]
fn parameters_of_tasks_external_events_and_streams_of_the_cpu() {
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("params.json");
    let printed = program("params", &[&doubler("params.om"), &trace]);
    let written = fs::read_to_string(trace).unwrap();
    assert!(printed.contains("of values") && printed.contains("VALUE"), "{printed}");
    assert_eq!(printed, written);
}

#[test]
fn null_and_stale_handles_are_codes() {
    program("refuse", &[&doubler("refuse.om")]);
}

#[test]
fn contexts_devices_threads_and_processes_end_under_those_who_wait() {
    program("ends", &[]);
}

#[test]
fn the_header_is_clean_c_and_cpp() {
    for (compiler, language, standards) in
        [("cc", "c", ["c99", "c11"]), ("c++", "c++", ["c++11", "c++17"])]
    {
        for standard in standards {
            for header in ["acl.h", "acl_base.h", "acl_rt.h", "acl_mdl.h"] {
                let mut command = Command::new(compiler);
                command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]);
                command.arg(format!("-std={standard}")).args(["-x", language]);
                // As an include, since a header by itself is a warning to some compilers.
                command.arg("-include").arg(source(&format!("include/acl/{header}")));
                expect_success(command.arg("/dev/null"));
            }
        }
    }
}

/// Names of functions that the headers declare: after the comments are gone, what begins with
/// `acl` and is called.
fn declared() -> Vec<String> {
    let mut names = Vec::new();
    for header in ["acl.h", "acl_base.h", "acl_rt.h", "acl_mdl.h"] {
        let text = fs::read_to_string(source(&format!("include/acl/{header}"))).unwrap();
        let mut code = String::new();
        for (index, part) in text.split("/*").enumerate() {
            let rest = if index == 0 { part } else { part.split_once("*/").unwrap().1 };
            code.push_str(rest);
        }
        for statement in code.split(';').filter(|statement| !statement.contains("typedef")) {
            let Some((before, _)) = statement.split_once('(') else { continue };
            let name = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap();
            names.push(name.to_owned());
        }
    }
    names.sort();
    names
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let library = folder().join("libdflow_acl.so");
    let listed = expect_success(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let symbols = listed.lines().filter_map(|line| line.split_whitespace().nth(2));
    let mut exported: Vec<String> =
        symbols.filter(|name| name.starts_with("acl")).map(str::to_owned).collect();
    exported.sort();
    let declared = declared();
    assert!(declared.len() > 100, "{} functions found: {declared:?}", declared.len());
    assert_eq!(declared, exported);
}

#[test]
fn numbers_limits_of_time_and_ends() {
    program("calls", &[&doubler("calls.om")]);
}

#[test]
fn every_function_of_the_header_is_called_by_a_program() {
    let programs = fs::read_dir(source("tests/c")).unwrap();
    let code: String =
        programs.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let called = |name: &String| code.contains(&format!("{name}("));
    let missing: Vec<String> = declared().into_iter().filter(|name| !called(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_function_of_the_header_is_documented() {
    for header in ["acl.h", "acl_base.h", "acl_rt.h", "acl_mdl.h"] {
        let text = fs::read_to_string(source(&format!("include/acl/{header}"))).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let begins =
                ["aclError ", "size_t acl", "const char *acl", "void *acl", "aclDataType "];
            let function = begins.iter().any(|begin| line.starts_with(begin)) && line.contains('(');
            let said = at > 0 && lines[at - 1].ends_with("*/");
            assert!(!function || said, "{header}:{}: {line}: no comment before it", at + 1);
        }
    }
}
