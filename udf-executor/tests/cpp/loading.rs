//! How the executor finds functions in C++, and what it says when it does not.

use std::fs;
use std::path::PathBuf;

use executor_core::error::Code;

use super::common::{Node, Setup};
use super::{build, root, sample};

/// The log of a start that fails.
fn refused(setup: Setup) -> String {
    let mut node = Node::start(setup);
    let code = Code(node.response().error_code);
    assert_eq!(code, Code::FLOW_FUNC_FAILED, "{}", node.logs());
    node.end();
    node.logs()
}

fn folder(name: &str) -> PathBuf {
    let folder = build::folder().join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_missing_function_is_answered_with_those_that_are_registered() {
    let logs = refused(sample("arith", "sub", 0));
    assert!(logs.contains("has no function \"sub\", it has [\"identity\", \"add\"]"), "{logs}");
}

/// An executor that stands alone has no C++ side.
#[test]
fn a_missing_libflow_func_is_named_with_where_it_was_looked_for() {
    let mut setup = sample("arith", "add", 0);
    let program = folder("alone").join("udf-executor");
    fs::copy(root().join("udf-executor"), &program).unwrap();
    setup.program = Some(program.clone());
    let logs = refused(setup);
    let place = program.with_file_name("libflow_func.so");
    assert!(logs.contains("functions in C++ need libflow_func.so"), "{logs}");
    assert!(logs.contains(place.to_str().unwrap()), "{logs}");
    assert!(logs.contains("install it beside udf-executor"), "{logs}");
}

#[test]
fn a_libflow_func_of_another_version_is_refused() {
    let mut setup = sample("arith", "add", 0);
    let folder = folder("other-version");
    let source = folder.join("other.cpp");
    let text = "#include \"abi.h\"\n#include \"flow_func/meta_flow_func.h\"\n\
        bool FlowFunc::RegisterFlowFunc(const char *, const FLOW_FUNC_CREATOR_FUNC &) noexcept\n\
        { return true; }\n\
        extern \"C\" const dflow::LibraryV1 *dflow_library_v1()\n\
        { static const dflow::LibraryV1 record = {dflow::LIBRARY_MAGIC, 99, 64, 0, 1,\n\
        \"libflow_func\", 12, nullptr, 64, {0, 0, 0}}; return &record; }\n";
    // All other code is that of the real one.
    fs::write(&source, text).unwrap();
    let sources = build::sources().join("cpp");
    let paths = ["context.cpp", "defaults.cpp", "log.cpp", "message.cpp", "runtime.cpp"]
        .map(|name| sources.join(name).to_str().unwrap().to_owned());
    let includes =
        [sources.clone(), sources.join("../include"), sources.join("../include/flow_func")]
            .map(|path| format!("-I{}", path.display()));
    let out = folder.join("libflow_func.so").to_str().unwrap().to_owned();
    let mut args = vec!["-shared", "-fPIC", "-Wl,-soname,libflow_func.so", "-o", &out];
    args.push(source.to_str().unwrap());
    args.extend(paths.iter().map(String::as_str));
    args.extend(includes.iter().map(String::as_str));
    build::compile(&args).unwrap();
    setup.env = vec![("LD_LIBRARY_PATH", folder.to_str().unwrap().to_owned().leak())];
    let logs = refused(setup);
    assert!(logs.contains("libflow_func.so, which was loaded for "), "{logs}");
    assert!(logs.contains("has ABI version 99, expected 1"), "{logs}");
}

/// In CANN the executor itself brings libflow_func.so, so projects need not link it.
#[test]
fn a_library_that_does_not_name_libflow_func_loads_all_the_same() {
    let setup = sample("arith", "identity", 0);
    let library = folder("unlinked").join("libunlinked.so");
    let source = build::sources().join("cpp/samples/arith/arith.cpp");
    let include = format!("-I{}", build::sources().join("include").display());
    let (out, source) = (library.to_str().unwrap(), source.to_str().unwrap());
    build::compile(&["-shared", "-fPIC", "-O2", &include, source, "-o", out]).unwrap();
    let mut node = Node::start(setup.library(library));
    node.ready();
    node.feed(0, 1, &[4]);
    assert_eq!(node.fetch(0).ints(), [4]);
    node.finalize();
}

#[test]
fn a_library_that_needs_something_else_fails_with_the_loaders_words() {
    let library = folder("lacking").join("liblacking.so");
    let source = library.with_extension("cpp");
    fs::write(&source, "void Elsewhere();\nvoid Here() { Elsewhere(); }\n").unwrap();
    let (out, source) = (library.to_str().unwrap(), source.to_str().unwrap());
    build::compile(&["-shared", "-fPIC", source, "-o", out]).unwrap();
    let logs = refused(Setup::new("add").library(library));
    assert!(logs.contains("undefined symbol: _Z9Elsewherev"), "{logs}");
    assert!(!logs.contains("libflow_func"), "{logs}");
}
