//! The headers by themselves, and what they compile into.

use std::process::Command;

use super::{RESOURCE, build, root};

/// Headers of later versions.
const REFUSED: [&str; 3] = ["flow_msg_queue.h", "meta_multi_func.h", "meta_run_context.h"];

#[test]
fn each_header_stands_alone_and_those_to_come_say_so() {
    let include = build::sources().join("include");
    let mut names: Vec<String> = std::fs::read_dir(include.join("flow_func"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 16, "{names:?}");
    let flag = format!("-I{}", include.display());
    std::fs::create_dir_all(build::folder()).unwrap();
    for name in &names {
        let file = build::folder().join(format!("alone-{name}.cpp"));
        std::fs::write(&file, format!("#include \"flow_func/{name}\"\n")).unwrap();
        let compiled = build::compile(&["-fsyntax-only", &flag, file.to_str().unwrap()]);
        if REFUSED.contains(&name.as_str()) {
            let said = compiled.unwrap_err();
            assert!(said.contains("not supported by this version of dflow"), "{said}");
        } else {
            compiled.unwrap();
        }
    }
}

#[test]
fn virtual_tables_values_and_texts_are_those_of_the_specification() {
    build::install(&root());
    let include = format!("-I{}", build::sources().join("include").display());
    let source = build::sources().join("cpp/tests/vtable.cpp");
    let lib = root().join("lib64");
    for abi in [0, 1] {
        let program = build::folder().join(format!("vtable-{abi}"));
        let abi = format!("-D_GLIBCXX_USE_CXX11_ABI={abi}");
        let (link, path) =
            (format!("-L{}", lib.display()), format!("-Wl,-rpath,{}", lib.display()));
        let out = program.to_str().unwrap();
        let source = source.to_str().unwrap();
        build::compile(&[&abi, &include, source, "-o", out, &link, "-lflow_func", &path]).unwrap();
        build::run(&mut Command::new(&program)).unwrap();
    }
}

#[test]
fn no_text_type_of_the_compiler_is_in_an_exported_name() {
    build::install(&root());
    let library = root().join("lib64/libflow_func.so");
    let names = build::run(Command::new("nm").args(["-D", "--defined-only"]).arg(library)).unwrap();
    assert!(names.contains(" T dflow_library_v1"), "{names}");
    let ours = names.lines().filter(|line| line.contains("8FlowFunc"));
    let texts: Vec<&str> =
        ours.filter(|line| line.contains("basic_string") || line.contains("5cxx11")).collect();
    assert!(texts.is_empty(), "{texts:?}");
}

/// Projects get the variables that CANN's build hands them, for each kind of resource.
#[test]
fn projects_build_for_every_resource_type_of_this_machine() {
    for resource in [RESOURCE, "Ascend"] {
        let library = build::sample(&root(), "arith", 0, resource);
        assert!(library.ends_with(format!("cpp/release/libarith-0-{resource}.so")));
        assert!(library.is_file());
    }
}
