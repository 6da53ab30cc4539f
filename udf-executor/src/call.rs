//! The library: loading it, finding the function, and the calls through its record.
//!
//! Every call runs as user code, with no part of the node borrowed: the function calls back
//! ([`crate::api`]). A library that was built to abort is refused before anything of it runs but
//! its constructors.
#![allow(unsafe_code, reason = "calls through loaded symbols")]

use std::path::Path;

use executor_rt::interpose::in_user_code;
use flow_func::abi::{
    ACCESS_WRITE_DATA, ApiV1, ContextV1, ENTRY_SYMBOL, FuncV1, InstanceV1, LIBRARY_MAGIC,
    LibraryEntryV1, LibraryV1, MsgV1,
};

use crate::context::Context;
use crate::cpp;
use crate::fault;
use crate::view::{self, TAG_INPUT};

/// Most functions of a library.
const FUNCS_MAX: usize = 1024;

/// One function of a loaded library.
#[derive(Debug)]
pub(crate) struct Function {
    record: FuncV1,
    // Keeps the code in place; never unloaded.
    _library: cpp::Loaded,
}

impl Function {
    /// Loads `path` and finds `name`.
    ///
    /// # Errors
    /// A text with the loader's message, what is wrong with the library, or the functions it has.
    pub(crate) fn load(path: &Path, name: &str) -> Result<Function, String> {
        let library = in_user_code(|| cpp::open(path))?;
        let entry = library.candidates().find_map(|library| {
            // SAFETY: whoever exports a name like this one exports the entry, with this type.
            unsafe { library.symbol::<LibraryEntryV1>(ENTRY_SYMBOL) }
        });
        let shown = path.display();
        let entry = entry.ok_or_else(|| {
            format!("{shown} exports no {}: is it a library of user functions?", text(ENTRY_SYMBOL))
        })?;
        // SAFETY: the entry takes nothing and returns its record.
        let record = unsafe { entry() };
        // SAFETY: null, or a record that lives as long as the library is loaded (abi).
        let record = unsafe { record.as_ref() }.ok_or_else(|| format!("{shown} has no record"))?;
        record.check().map_err(|what| format!("{}{shown} {what}", of_adapter(record)))?;
        let records = functions(record);
        match records.iter().find(|func| name_of(func) == name) {
            Some(func) => Ok(Function { record: *func, _library: library }),
            None => {
                let names: Vec<&str> = records.iter().map(name_of).collect();
                Err(format!("{shown} has no function {name:?}, it has {names:?}"))
            }
        }
    }

    /// Makes an instance.
    ///
    /// # Errors
    /// The function could not be made; its log says why.
    pub(crate) fn create(
        self,
        api: &'static ApiV1,
        context: &'static Context,
        inputs: usize,
    ) -> Result<Instance, String> {
        let ctx: *mut ContextV1 = core::ptr::from_ref(context).cast_mut().cast();
        // SAFETY: table and context live for ever (abi I1).
        let instance = in_user_code(|| unsafe { (self.record.create)(api, ctx) });
        if instance.is_null() {
            return Err("create of the function failed, its log lines say why".to_owned());
        }
        Ok(Instance {
            function: self,
            instance,
            context,
            views: vec![MsgV1::EMPTY; inputs].into(),
            pointers: vec![core::ptr::null(); inputs].into(),
        })
    }
}

fn text(name: &core::ffi::CStr) -> &str {
    name.to_str().unwrap_or_default()
}

/// What stands before the library's path when the record is that of libflow_func.so.
fn of_adapter(record: &LibraryV1) -> &'static str {
    let len = usize::try_from(record.name_len).unwrap_or(0).min(cpp::RECORD_NAME.len());
    if record.magic != LIBRARY_MAGIC || record.name.is_null() {
        return "";
    }
    // SAFETY: a name of at least this length that lives as long as the library (abi); its place in
    // the record is that of every version.
    let name = unsafe { core::slice::from_raw_parts(record.name, len) };
    if name == cpp::RECORD_NAME { "libflow_func.so, which was loaded for " } else { "" }
}

/// The records of a library, each by value: a newer library's records may be longer.
fn functions(library: &LibraryV1) -> Vec<FuncV1> {
    let count = (library.func_count as usize).min(FUNCS_MAX);
    (0..count)
        .map(|index| {
            let at = library.funcs.wrapping_byte_add(index * library.func_size as usize);
            // SAFETY: `func_count` records of `func_size` bytes, at least this struct's (checked).
            unsafe { at.read_unaligned() }
        })
        .collect()
}

fn name_of(func: &FuncV1) -> &'static str {
    let len = usize::try_from(func.name_len).unwrap_or(0);
    if func.name.is_null() {
        return "";
    }
    // SAFETY: a text of this length that lives as long as the library, which is for ever.
    let bytes = unsafe { core::slice::from_raw_parts(func.name, len) };
    core::str::from_utf8(bytes).unwrap_or("")
}

/// One instance, used by one thread.
#[derive(Debug)]
pub(crate) struct Instance {
    function: Function,
    instance: *mut InstanceV1,
    context: &'static Context,
    // Filled before each call; boxed, so that their places stay.
    views: Box<[MsgV1]>,
    pointers: Box<[*const MsgV1]>,
}

impl Instance {
    fn ctx(&self) -> *mut ContextV1 {
        core::ptr::from_ref(self.context).cast_mut().cast()
    }

    /// One call of `init`.
    pub(crate) fn init(&mut self) -> i32 {
        let ctx = self.ctx();
        // SAFETY: a live instance, this thread's, in no other call (abi I2).
        in_user_code(|| unsafe { (self.function.record.init)(self.instance, ctx) })
    }

    /// One call of `proc` with the inputs that the reader holds, or their copies.
    pub(crate) fn proc(&mut self) -> i32 {
        self.fill();
        let count = u32::try_from(self.pointers.len()).unwrap_or(0);
        let ctx = self.ctx();
        // SAFETY:
        // - a live instance, this thread's, in no other call (abi I2);
        // - the views live until the call returned, as do the mbufs behind them, which the reader
        //   holds (I3).
        in_user_code(|| unsafe {
            (self.function.record.proc)(self.instance, ctx, self.pointers.as_ptr(), count)
        })
    }

    fn fill(&mut self) {
        let node = self.context.node.borrow();
        for (port, place) in self.views.iter_mut().enumerate() {
            let copy = node.copies.get(port).and_then(Option::as_ref);
            let access = if copy.is_some() { ACCESS_WRITE_DATA } else { 0 };
            let Some(mbuf) = copy.or(node.reader.get(port)) else { continue };
            fault::note_input(port, mbuf.block());
            *place = view::view(&node.worker, mbuf, (TAG_INPUT, port), access);
        }
        for (pointer, view) in self.pointers.iter_mut().zip(&self.views) {
            *pointer = view;
        }
    }

    /// Ends the instance.
    pub(crate) fn destroy(self) {
        // SAFETY: a live instance, ended once: `self` is consumed.
        in_user_code(|| unsafe { (self.function.record.destroy)(self.instance) });
    }
}
