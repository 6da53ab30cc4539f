//! Where this user keeps what can be made again: `$DFLOW_CACHE_DIR`, else `$XDG_CACHE_HOME/dflow`,
//! else `~/.cache/dflow`. It may be deleted at any time while no flow is being deployed.

use std::path::PathBuf;

/// What is missing when there is no such folder.
pub(crate) const NONE: &str = "no DFLOW_CACHE_DIR, XDG_CACHE_HOME or HOME in the environment";

/// A folder of the cache, absolute; it need not be there yet. `None`: nothing names one.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let folder = named("DFLOW_CACHE_DIR")
        .or_else(|| Some(named("XDG_CACHE_HOME")?.join("dflow")))
        .or_else(|| Some(named("HOME")?.join(".cache/dflow")));
    folder.and_then(|folder| std::path::absolute(folder.join(name)).ok())
}
