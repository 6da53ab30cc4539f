//! What programs are given and say of themselves: data buffers, data sets, descriptions.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use npu::tensor::TensorInfo;
use npu_device::codes::PARAM_INVALID;
use npu_device::{Error, Result};

use crate::raw::{Out, Text, null};
use crate::state::{self, Handle, Object, buffer, change, dataset, desc, keep};

/// Bytes of a name in [`Dims`], and dimensions in it.
const DIMS: usize = 128;

/// Format of a tensor without one.
const FORMAT_ND: c_int = 2;

/// Type of a tensor that there is not.
const TYPE_UNDEFINED: c_int = -1;

/// Memory of the caller's.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

/// Buffers, by handle.
#[derive(Clone, Default)]
pub(crate) struct Dataset(Vec<usize>);

impl Dataset {
    /// The memory of all of them.
    pub(crate) fn buffers(&self) -> Result<Vec<Buffer>> {
        self.0.iter().map(|number| buffer(state::handle(*number))).collect()
    }
}

/// An input or output of a program.
pub(crate) struct Port {
    pub(crate) name: CString,
    pub(crate) info: TensorInfo,
}

/// Inputs and outputs of a program.
#[derive(Default)]
pub(crate) struct Ports {
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
}

/// A description: empty until it is filled.
pub(crate) type Desc = Arc<Ports>;

/// Dimensions of a tensor, as C sees them.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Dims {
    name: [c_char; DIMS],
    count: usize,
    dims: [i64; DIMS],
}

impl Dims {
    fn of(port: &Port) -> Self {
        let mut all = Self { name: [0; DIMS], count: port.info.shape.rank(), dims: [0; DIMS] };
        // Without its end in the last place, which stays 0.
        let bytes = port.name.as_bytes().iter().take(DIMS - 1);
        all.name.iter_mut().zip(bytes).for_each(|(to, byte)| *to = c_char::from_ne_bytes([*byte]));
        let dims = port.info.shape.dims().iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX));
        all.dims.iter_mut().zip(dims).for_each(|(to, dim)| *to = dim);
        all
    }
}

fn port<'a>(ports: &'a [Port], what: &str, index: usize) -> Result<&'a Port> {
    let found = ports.len();
    ports
        .get(index)
        .ok_or_else(|| Error::new(PARAM_INVALID, format!("{what} {index}: the model has {found}")))
}

fn input<R>(handle: Handle, index: usize, of: impl FnOnce(&Port) -> R) -> Result<R> {
    port(&desc(handle)?.inputs, "input", index).map(of)
}

fn output<R>(handle: Handle, index: usize, of: impl FnOnce(&Port) -> R) -> Result<R> {
    port(&desc(handle)?.outputs, "output", index).map(of)
}

fn index_of(ports: &[Port], name: &Text, place: &Out<usize>) -> Result<()> {
    let name = name.read()?;
    let at = ports.iter().position(|port| port.name.as_bytes() == name.as_bytes());
    place.put(at.ok_or_else(|| Error::new(PARAM_INVALID, format!("nothing is named {name:?}")))?)
}

fn type_of(port: &Port) -> c_int {
    port.info.dtype.0
}

api! {
    fn aclCreateDataBuffer(data: *mut c_void, bytes: usize) -> Handle, or std::ptr::null_mut(); {
        let made = Buffer { address: data.expose_provenance(), bytes };
        Ok(keep(Object::Buffer(made), 0))
    }

    fn aclDestroyDataBuffer(own: Handle) {
        buffer(own)?;
        state::forget(own);
        Ok(())
    }

    fn aclUpdateDataBuffer(own: Handle, data: *mut c_void, bytes: usize) {
        change(own, "data buffer", |object| match object {
            Object::Buffer(found) => {
                *found = Buffer { address: data.expose_provenance(), bytes };
                Some(Ok(()))
            }
            _ => None,
        })
    }

    fn aclGetDataBufferAddr(own: Handle) -> *mut c_void, or std::ptr::null_mut(); {
        Ok(std::ptr::with_exposed_provenance_mut(buffer(own)?.address))
    }

    fn aclGetDataBufferSizeV2(own: Handle) -> usize, or 0; {
        Ok(buffer(own)?.bytes)
    }

    fn aclmdlCreateDataset() -> Handle, or std::ptr::null_mut(); {
        Ok(keep(Object::Dataset(Dataset::default()), 0))
    }

    fn aclmdlDestroyDataset(own: Handle) {
        dataset(own)?;
        state::forget(own);
        Ok(())
    }

    fn aclmdlAddDatasetBuffer(own: Handle, more: Handle) {
        buffer(more)?;
        change(own, "data set", |object| match object {
            Object::Dataset(found) => {
                found.0.push(more.addr());
                Some(Ok(()))
            }
            _ => None,
        })
    }

    fn aclmdlGetDatasetNumBuffers(own: Handle) -> usize, or 0; {
        Ok(dataset(own)?.0.len())
    }

    fn aclmdlGetDatasetBuffer(own: Handle, index: usize) -> Handle, or std::ptr::null_mut(); {
        let found = dataset(own)?.0.get(index).copied();
        found.map(state::handle).ok_or_else(|| null("a buffer of this number"))
    }

    fn aclmdlCreateDesc() -> Handle, or std::ptr::null_mut(); {
        Ok(keep(Object::Desc(Desc::default()), 0))
    }

    fn aclmdlDestroyDesc(own: Handle) {
        desc(own)?;
        state::forget(own);
        Ok(())
    }

    fn aclmdlGetDesc(own: Handle, id: u32) {
        let ports = crate::program::program(id)?.ports.clone();
        change(own, "model description", |object| match object {
            Object::Desc(found) => {
                *found = ports;
                Some(Ok(()))
            }
            _ => None,
        })
    }

    fn aclmdlGetNumInputs(own: Handle) -> usize, or 0; {
        Ok(desc(own)?.inputs.len())
    }

    fn aclmdlGetNumOutputs(own: Handle) -> usize, or 0; {
        Ok(desc(own)?.outputs.len())
    }

    fn aclmdlGetInputSizeByIndex(own: Handle, index: usize) -> usize, or 0; {
        input(own, index, |port| port.info.bytes())
    }

    fn aclmdlGetOutputSizeByIndex(own: Handle, index: usize) -> usize, or 0; {
        output(own, index, |port| port.info.bytes())
    }

    fn aclmdlGetInputDims(own: Handle, index: usize, place: Out<Dims>) {
        place.put(input(own, index, Dims::of)?)
    }

    fn aclmdlGetOutputDims(own: Handle, index: usize, place: Out<Dims>) {
        place.put(output(own, index, Dims::of)?)
    }

    fn aclmdlGetInputDataType(own: Handle, index: usize) -> c_int, or TYPE_UNDEFINED; {
        input(own, index, type_of)
    }

    fn aclmdlGetOutputDataType(own: Handle, index: usize) -> c_int, or TYPE_UNDEFINED; {
        output(own, index, type_of)
    }

    fn aclmdlGetInputFormat(own: Handle, index: usize) -> c_int, or TYPE_UNDEFINED; {
        input(own, index, |_| FORMAT_ND)
    }

    fn aclmdlGetOutputFormat(own: Handle, index: usize) -> c_int, or TYPE_UNDEFINED; {
        output(own, index, |_| FORMAT_ND)
    }

    fn aclmdlGetInputNameByIndex(own: Handle, index: usize) -> *const c_char, or c"".as_ptr(); {
        input(own, index, |port| port.name.as_ptr())
    }

    fn aclmdlGetOutputNameByIndex(own: Handle, index: usize) -> *const c_char, or c"".as_ptr(); {
        output(own, index, |port| port.name.as_ptr())
    }

    fn aclmdlGetInputIndexByName(own: Handle, name: Text, place: Out<usize>) {
        index_of(&desc(own)?.inputs, &name, &place)
    }

    fn aclmdlGetOutputIndexByName(own: Handle, name: Text, place: Out<usize>) {
        index_of(&desc(own)?.outputs, &name, &place)
    }
}
