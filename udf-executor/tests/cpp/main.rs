//! Functions in C++: the sample projects of flow-func, built with cmake in both string ABIs, each
//! in a real udf-executor.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;

mod build;
mod faults;
mod headers;
mod loading;
mod samples;

use std::path::{Path, PathBuf};

use common::Setup;
use executor_rt::proto::{ArrayValue, AttrKind};

/// The folder that the executor lies in; libflow_func.so is installed there.
fn root() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_udf-executor")).parent().unwrap().to_owned()
}

/// What the build hands to projects for this machine.
const RESOURCE: &str = if cfg!(target_arch = "aarch64") { "Aarch" } else { "X86" };

/// A function of a sample in one of the two string ABIs.
fn sample(name: &str, function: &'static str, abi: u8) -> Setup {
    Setup::new(function).library(build::sample(&root(), name, abi, RESOURCE))
}

fn text(value: &str) -> AttrKind {
    AttrKind::S(value.as_bytes().to_vec())
}

fn texts(values: &[&str]) -> AttrKind {
    let s = values.iter().map(|value| value.as_bytes().to_vec()).collect();
    AttrKind::Array(ArrayValue { s, ..ArrayValue::default() })
}

fn faulty(mode: &str, abi: u8) -> Setup {
    sample("faulty", "faulty", abi).kind("mode", text(mode))
}
