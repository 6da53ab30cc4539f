//! The C++ side of user functions: libflow_func.so and its headers, built by cmake and installed
//! beside the release executors, where `udf-executor` and builds of C++ projects look for them.

use std::path::Path;

use crate::context::Context;
use crate::setup;
use crate::wheels::quiet;

/// `cargo xtask cpp`.
pub(crate) fn run(context: &Context) -> Result<(), String> {
    setup::run(context)?;
    install(context)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Builds and installs; returns one line.
pub(crate) fn install(context: &Context) -> Result<Vec<String>, String> {
    let (build, prefix) = (context.target("").join("flow_func"), context.executors());
    let (folder, prefix) = (build.to_string_lossy(), prefix.to_string_lossy());
    // cmake refuses the cache of another checkout or of a folder that was moved.
    let cache = std::fs::read_to_string(build.join("CMakeCache.txt")).unwrap_or_default();
    let source = context.root.join("flow-func/cpp");
    let of_here = cache.contains(&format!("CMAKE_HOME_DIRECTORY:INTERNAL={}\n", source.display()))
        && cache.contains(&format!("CMAKE_CACHEFILE_DIR:INTERNAL={folder}\n"));
    if !cache.is_empty() && !of_here {
        std::fs::remove_dir_all(&build).map_err(|error| format!("{folder}: {error}"))?;
    }
    let cmake = Path::new("cmake");
    quiet(context, cmake, &["-S", "flow-func/cpp", "-B", &folder])?;
    quiet(context, cmake, &["--build", &folder, "-j", "2"])?;
    quiet(context, cmake, &["--install", &folder, "--prefix", &prefix])?;
    Ok(vec![format!("{prefix}/lib64/libflow_func.so and {prefix}/include/flow_func")])
}
