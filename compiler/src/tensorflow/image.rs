//! Convolutions, pools and normalisation of images. `data_format` says where the maps are:
//! last (NHWC, what is meant when nothing is said) or second (NCHW).

use npu::ops::AttributeValue;

use super::ops::keep_rank;
use super::scope::{Scope, float, int, ints};

/// Attributes of convolutions; the library that TensorFlow computes them with says nothing here.
pub(super) const CONV: &[&str] =
    &["strides", "padding", "explicit_paddings", "data_format", "dilations", "use_cudnn_on_gpu"];

/// Attributes of pools.
pub(super) const POOL: &[&str] =
    &["ksize", "strides", "padding", "explicit_paddings", "data_format"];

/// Attributes of normalisation.
pub(super) const NORM: &[&str] =
    &["epsilon", "data_format", "is_training", "exponential_avg_factor"];

/// Whether maps are last.
fn maps_last(scope: &Scope<'_>) -> Result<bool, String> {
    match scope.attributes.text("data_format")?.unwrap_or("NHWC") {
        "NHWC" => Ok(true),
        "NCHW" => Ok(false),
        other => Err(format!("attribute `data_format`: {other:?}; supported: NHWC, NCHW")),
    }
}

/// The image with its maps in front.
fn first(scope: &mut Scope<'_>, last: bool) -> String {
    let x = scope.inputs[0].clone();
    if !last {
        return x;
    }
    scope.step("maps first", "Transpose", &[&x], vec![ints("perm", &[0, 3, 1, 2])])
}

/// Adds the node that makes the result from what has its maps in front.
fn finish(
    scope: &mut Scope<'_>,
    last: bool,
    op: &str,
    inputs: &[&str],
    attributes: Vec<(String, AttributeValue)>,
) {
    if last {
        let own = scope.step("maps last", op, inputs, attributes);
        scope.result("Transpose", &[&own], vec![ints("perm", &[0, 2, 3, 1])]);
    } else {
        scope.result(op, inputs, attributes);
    }
    scope.set_rank(4);
}

/// Height and width of a list with a number for each of four dims; the others are 1.
fn spatial(scope: &Scope<'_>, name: &str, last: bool) -> Result<Option<[i64; 2]>, String> {
    let Some(given) = scope.attributes.ints(name)? else { return Ok(None) };
    let own = match *given {
        [1, height, width, 1] if last => [height, width],
        [1, 1, height, width] if !last => [height, width],
        _ => {
            let order = if last { "[1, height, width, 1]" } else { "[1, 1, height, width]" };
            return Err(format!("attribute `{name}`: {given:?}; supported: {order}"));
        }
    };
    Ok(Some(own))
}

/// Strides and padding of a window.
fn window(scope: &Scope<'_>, last: bool) -> Result<Vec<(String, AttributeValue)>, String> {
    let strides = spatial(scope, "strides", last)?;
    let strides = strides.ok_or("attribute `strides` is not there")?;
    let mut own = vec![ints("strides", &strides)];
    let mode = |text: &str| ("auto_pad".to_owned(), AttributeValue::Text(text.to_owned()));
    match scope.attributes.text("padding")?.ok_or("attribute `padding` is not there")? {
        "SAME" => own.push(mode("SAME_UPPER")),
        "VALID" => own.push(mode("VALID")),
        "EXPLICIT" => {
            let given = scope.attributes.ints("explicit_paddings")?.unwrap_or_default();
            let pads = match *given {
                [0, 0, top, bottom, left, right, 0, 0] if last => [top, left, bottom, right],
                [0, 0, 0, 0, top, bottom, left, right] if !last => [top, left, bottom, right],
                _ => {
                    let expected = "two numbers a dim, 0 for images and maps";
                    let what = format!("{given:?}; supported: {expected}");
                    return Err(format!("attribute `explicit_paddings`: {what}"));
                }
            };
            own.push(ints("pads", &pads));
        }
        other => {
            let supported = "SAME, VALID, EXPLICIT";
            return Err(format!("attribute `padding`: {other:?}; supported: {supported}"));
        }
    }
    Ok(own)
}

/// Attributes of a convolution.
fn convolution(scope: &Scope<'_>, last: bool) -> Result<Vec<(String, AttributeValue)>, String> {
    let mut own = window(scope, last)?;
    if let Some(dilations) = spatial(scope, "dilations", last)? {
        own.push(ints("dilations", &dilations));
    }
    Ok(own)
}

/// Filters are height, width, maps that are read, maps that are made.
pub(super) fn conv(scope: &mut Scope<'_>) -> Result<usize, String> {
    let last = maps_last(scope)?;
    let attributes = convolution(scope, last)?;
    let x = first(scope, last);
    let filter = scope.inputs[1].clone();
    let filter = scope.step("filter", "Transpose", &[&filter], vec![ints("perm", &[3, 2, 0, 1])]);
    finish(scope, last, "Conv", &[&x, &filter], attributes);
    Ok(1)
}

/// Each map has filters of its own: height, width, maps, filters of each.
pub(super) fn depthwise(scope: &mut Scope<'_>) -> Result<usize, String> {
    let last = maps_last(scope)?;
    let mut attributes = convolution(scope, last)?;
    let maps = match scope.constant_dims(1, "filter")?[..] {
        [_, _, maps, _] => i64::try_from(maps).map_err(|error| error.to_string())?,
        ref dims => return Err(format!("input 1 (filter) is {dims:?}; expected four dims")),
    };
    attributes.push(int("group", maps));
    let x = first(scope, last);
    let filter = scope.inputs[1].clone();
    let perm = vec![ints("perm", &[2, 3, 0, 1])];
    let filter = scope.step("filter in order", "Transpose", &[&filter], perm);
    // All filters of a map behind one another, each of which sees one map; 0: as it was.
    let shape = scope.numbers("filter shape", &[-1, 1, 0, 0])?;
    let filter = scope.step("filter", "Reshape", &[&filter, &shape], Vec::new());
    finish(scope, last, "Conv", &[&x, &filter], attributes);
    Ok(1)
}

pub(super) fn pool(scope: &mut Scope<'_>, op: &str) -> Result<usize, String> {
    let last = maps_last(scope)?;
    let mut attributes = window(scope, last)?;
    let size = spatial(scope, "ksize", last)?.ok_or("attribute `ksize` is not there")?;
    attributes.push(ints("kernel_shape", &size));
    let x = first(scope, last);
    finish(scope, last, op, &[&x], attributes);
    Ok(1)
}

/// An offset for each map.
pub(super) fn bias(scope: &mut Scope<'_>) -> Result<usize, String> {
    let last = maps_last(scope)?;
    let (x, offset) = (scope.inputs[0].clone(), scope.inputs[1].clone());
    let offset = match (last, scope.rank(0)) {
        (true, _) => offset,
        (false, None) => {
            return Err("attribute `data_format`: NCHW, where the number of dims of input 0 has \
                        to be known"
                .to_owned());
        }
        (false, Some(rank)) => {
            let behind: Vec<i64> = (1..).take(rank.saturating_sub(2)).collect();
            let axes = scope.numbers("axes", &behind)?;
            scope.step("offset", "Unsqueeze", &[&offset, &axes], Vec::new())
        }
    };
    keep_rank(scope);
    scope.result("Add", &[&x, &offset], Vec::new());
    Ok(1)
}

pub(super) fn norm(scope: &mut Scope<'_>) -> Result<usize, String> {
    let last = maps_last(scope)?;
    if scope.attributes.flag("is_training")?.unwrap_or(true) {
        return Err("attribute `is_training` is true; freeze the graph for inference".to_owned());
    }
    let epsilon = scope.attributes.float("epsilon")?.unwrap_or(0.0001);
    let x = first(scope, last);
    let others: Vec<String> = scope.inputs[1..].to_vec();
    let inputs: Vec<&str> =
        std::iter::once(x.as_str()).chain(others.iter().map(String::as_str)).collect();
    finish(scope, last, "BatchNormalization", &inputs, vec![float("epsilon", epsilon)]);
    Ok(1)
}
