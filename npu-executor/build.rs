//! Strips the release executable: a package with an optimisation level of its own (workspace
//! `Cargo.toml`) does not get `strip` of its profile. Leaves the index of unwinding tables out: a
//! panic aborts, and without symbols a trace would name nothing. And packs the addresses that are
//! made absolute at start, where the C library is one that unpacks them: 8 bytes for up to 63 of
//! them instead of 24 for each.

use std::process::Command;

/// The first glibc that reads packed relocations (DT_RELR).
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all,--no-eh-frame-hdr");
        if glibc().is_some_and(|version| version >= PACKED_SINCE) {
            println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
    }
}

/// The version of the C library of this machine, when it is the one that is built for.
fn glibc() -> Option<(u32, u32)> {
    let own = std::env::var("HOST").ok() == std::env::var("TARGET").ok();
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok().filter(|_| own)?;
    let text = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
