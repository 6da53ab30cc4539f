//! Functions in C++: finding `libflow_func.so`, which holds their entry.
//!
//! A library of C++ functions exports no entry of its own. It registers its classes with
//! `libflow_func.so` when it is loaded, and that one exports the entry; looked up through the
//! library it is found, because the loader searches what a library needs, too. Most machines have
//! no such file where the loader looks, so it is taken from beside this program.

use std::path::{Path, PathBuf};

use sys::dylib::Library;

/// File name of the C++ side, also its SONAME.
const ADAPTER: &str = "libflow_func.so";
/// Name in the record of that library.
pub(crate) const RECORD_NAME: &[u8] = b"libflow_func";
/// How the loader names functions and tables of its classes that it can't find.
const SYMBOLS: [&str; 2] = ["undefined symbol: _ZN8FlowFunc", "undefined symbol: _ZNK8FlowFunc"];
const TABLES: [&str; 2] = ["undefined symbol: _ZTIN8FlowFunc", "undefined symbol: _ZTVN8FlowFunc"];

/// A library of functions, and what was loaded for it.
#[derive(Debug)]
pub(crate) struct Loaded {
    library: Library,
    adapter: Option<Library>,
}

impl Loaded {
    /// Where the entry may be, in order.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = &Library> {
        [Some(&self.library), self.adapter.as_ref()].into_iter().flatten()
    }
}

/// Loads `path`, after `libflow_func.so` when it needs that one and the loader does not find it.
///
/// # Errors
/// The loader's message; where `libflow_func.so` was looked for.
pub(crate) fn open(path: &Path) -> Result<Loaded, String> {
    let refusal = match Library::open(path) {
        Ok(library) => return Ok(Loaded { library, adapter: None }),
        Err(error) => error.to_string(),
    };
    if !needs_adapter(&refusal) {
        return Err(refusal);
    }
    let places = places();
    let Some(file) = places.iter().find(|place| place.is_file()) else {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(format!(
            "{refusal}; functions in C++ need {ADAPTER}, which is neither where the loader looks \
             (LD_LIBRARY_PATH) nor at {}: install it beside udf-executor",
            places.join(", ")
        ));
    };
    // Global, for libraries that use it without naming it among what they need.
    let adapter = Library::open_global(file).map_err(|error| error.to_string())?;
    let library = Library::open(path).map_err(|error| error.to_string())?;
    Ok(Loaded { library, adapter: Some(adapter) })
}

/// Whether the loader missed `libflow_func.so` or something that it defines.
fn needs_adapter(refusal: &str) -> bool {
    let missing = format!("{ADAPTER}: cannot open shared object file");
    refusal.contains(&missing) || SYMBOLS.iter().chain(&TABLES).any(|what| refusal.contains(what))
}

/// Beside this program, in `lib64` there, in `lib64` one level up.
fn places() -> Vec<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new(".")).to_owned();
    let up = folder.parent().map(|up| up.join("lib64").join(ADAPTER));
    let mut places = vec![folder.join(ADAPTER), folder.join("lib64").join(ADAPTER)];
    places.extend(up);
    places
}

#[cfg(test)]
mod tests {
    use super::needs_adapter;

    #[test]
    fn only_what_the_adapter_would_mend_asks_for_it() {
        let file = "libflow_func.so: cannot open shared object file: No such file or directory";
        assert!(needs_adapter(file));
        assert!(needs_adapter("libx.so: undefined symbol: _ZN8FlowFunc16RegisterFlowFuncEPKc"));
        assert!(needs_adapter("libx.so: undefined symbol: _ZTIN8FlowFunc12MetaFlowFuncE"));
        assert!(!needs_adapter("libx.so: undefined symbol: _ZN3cv3MatE"));
        assert!(!needs_adapter("libx.so: cannot open shared object file"));
    }
}
