//! Strips the release executable: a package with an optimisation level of its own (workspace
//! `Cargo.toml`) does not get `strip` of its profile. And leaves the index of unwinding tables
//! out: a panic aborts, and without symbols a trace would name nothing.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all,--no-eh-frame-hdr");
    }
}
