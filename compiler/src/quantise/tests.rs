//! Tests of quantised layers: which tasks a graph has, and the same results as without any pass.

use npu::engine::Model;
use npu::ops::AttributeValue;
use npu::program::Layout;

use crate::testing::{D, Draft, FLOAT, check, noise, run_as};
use crate::{Compiled, Options, compile};

/// A graph with an input x in quanta of 1 / 64, a scale, and zeros of both types.
fn begin(dims: &[i64]) -> Draft {
    let dims: Vec<D> = dims.iter().map(|dim| D::N(*dim)).collect();
    Draft::new(15)
        .input("x", FLOAT, &dims)
        .floats("sx", &[], &[1.0 / 64.0])
        .floats("sy", &[], &[1.0 / 20.0])
        .floats("hundred", &[], &[100.0])
        .floats("one", &[], &[1.0])
        .node("QuantizeLinear", &["hundred", "one"], "zero")
        .node("QuantizeLinear", &["x", "sx", "zero"], "xq")
        .node("DequantizeLinear", &["xq", "sx", "zero"], "xf")
}

/// A constant that was quantised: bytes with a sign, a scale each along dim 0.
fn weights(draft: Draft, dims: &[i64], axis: i64) -> Draft {
    let count = dims.iter().product::<i64>();
    let counted = dims[usize::try_from(axis).unwrap()];
    let scales: Vec<f32> =
        noise(usize::try_from(counted).unwrap(), 9).iter().map(|x| 0.01 + x.abs() / 50.0).collect();
    let axis = [("axis", AttributeValue::Int(axis))];
    draft
        .floats("w", dims, &noise(usize::try_from(count).unwrap(), 2))
        .floats("sw", &[counted], &scales)
        .floats("none", &[counted], &vec![0.0; scales.len()])
        .node_with("Cast", &["none"], "zw", &[("to", AttributeValue::Int(3))])
        .node_with("QuantizeLinear", &["w", "sw", "zw"], "wq", &axis)
        .node_with("DequantizeLinear", &["wq", "sw", "zw"], "wf", &axis)
}

/// A bias in the quanta of sums.
fn bias(draft: Draft, count: i64) -> Draft {
    let values: Vec<f32> =
        noise(usize::try_from(count).unwrap(), 4).iter().map(|x| (x * 3000.0).round()).collect();
    draft
        .floats("b", &[count], &values)
        .node_with("Cast", &["b"], "bq", &[("to", AttributeValue::Int(6))])
        .node("Mul", &["sw", "sx"], "sb")
        .node_with("DequantizeLinear", &["bq", "sb"], "bf", &[("axis", AttributeValue::Int(0))])
}

fn end(draft: Draft, last: &str) -> Draft {
    draft
        .node("QuantizeLinear", &[last, "sy", "zero"], "yq")
        .node("DequantizeLinear", &["yq", "sy", "zero"], "y")
        .output("y", FLOAT, None)
}

#[test]
fn a_convolution_with_all_that_belongs_to_it() {
    for (maps, tasks) in [
        (3, ["QuantizeLinear", "QuantisedConv", "DequantizeLinear", "FromBlocked"].as_slice()),
        (20, &["QuantizeLinear", "ToBlocked", "QuantisedConv", "DequantizeLinear", "FromBlocked"]),
    ] {
        let dims = [1, maps, 6, 7];
        let pads = [("pads", AttributeValue::Ints(vec![1; 4]))];
        let draft = bias(weights(begin(&dims), &[12, maps, 3, 3], 0), 12);
        let draft = draft.node_with("Conv", &["xf", "wf", "bf"], "c", &pads);
        let x = noise(usize::try_from(maps * 42).unwrap(), 1);
        check(&end(draft.clone().node("Relu", &["c"], "r"), "r"), tasks, &x);
        check(&end(draft.clone().node("HardSwish", &["c"], "r"), "r"), tasks, &x);
        // Without an end the result is floats.
        let floats: Vec<&str> =
            tasks.iter().copied().filter(|task| *task != "DequantizeLinear").collect();
        check(&draft.output("c", FLOAT, None), &floats, &x);
    }
}

#[test]
fn each_map_on_its_own() {
    let group = [("group", AttributeValue::Int(20))];
    let draft = bias(weights(begin(&[1, 20, 6, 7]), &[20, 1, 3, 3], 0), 20);
    let draft = end(draft.node_with("Conv", &["xf", "wf", "bf"], "c", &group), "c");
    let tasks =
        ["QuantizeLinear", "ToBlocked", "QuantisedDepthwise", "DequantizeLinear", "FromBlocked"];
    check(&draft, &tasks, &noise(840, 1));
}

#[test]
fn products_with_a_matrix_either_way() {
    let tasks = ["QuantizeLinear", "QuantisedDense", "DequantizeLinear"];
    let draft = bias(weights(begin(&[5, 30]), &[30, 20], 1), 20);
    let sum = draft.clone().node("MatMul", &["xf", "wf"], "m").node("Add", &["m", "bf"], "s");
    check(&end(sum, "s"), &tasks, &noise(150, 1));
    let gemm = draft.node("Gemm", &["xf", "wf", "bf"], "g").node("Relu", &["g"], "r");
    check(&end(gemm.clone(), "r"), &tasks, &noise(150, 1));
    check(&gemm.output("r", FLOAT, None), &tasks[..2], &noise(150, 1));
    let turned = bias(weights(begin(&[5, 30]), &[20, 30], 0), 20);
    let transposed = [("transB", AttributeValue::Int(1))];
    let turned = turned.node_with("Gemm", &["xf", "wf", "bf"], "g", &transposed);
    check(&end(turned, "g"), &tasks, &noise(150, 1));
}

#[test]
fn a_bias_that_is_whole_in_a_part_only_is_added_once() {
    let quantum = (0.01 + noise(20, 9)[0].abs() / 50.0) / 64.0;
    let mut values = noise(20, 6);
    values[0] = quantum * 5000.0;
    let draft = weights(begin(&[5, 30]), &[30, 20], 1).floats("b", &[20], &values);
    let sum = draft.node("MatMul", &["xf", "wf"], "m").node("Add", &["m", "b"], "s");
    let tasks = ["QuantizeLinear", "QuantisedDense", "Add", "QuantizeLinear", "DequantizeLinear"];
    check(&end(sum, "s"), &tasks, &noise(150, 1));
}

#[test]
fn ops_on_bytes_with_constant_weights() {
    let dense = weights(begin(&[5, 30]), &[30, 20], 1)
        .node("QLinearMatMul", &["xq", "sx", "zero", "wq", "sw", "zw", "sy", "zero"], "p")
        .node("DequantizeLinear", &["p", "sy", "zero"], "y");
    let tasks = ["QuantizeLinear", "QuantisedDense", "DequantizeLinear"];
    check(&dense.output("y", FLOAT, None), &tasks, &noise(150, 1));
    let conv = weights(begin(&[1, 2, 6, 7]), &[12, 2, 3, 3], 0)
        .node("QLinearConv", &["xq", "sx", "zero", "wq", "sw", "zw", "sy", "zero"], "p")
        .node("DequantizeLinear", &["p", "sy", "zero"], "y");
    let tasks = ["QuantizeLinear", "QuantisedConv", "DequantizeLinear", "FromBlocked"];
    check(&conv.output("y", FLOAT, None), &tasks, &noise(84, 1));
    let mut dynamic = weights(begin(&[5, 30]), &[30, 20], 1)
        .node("DynamicQuantizeLinear", &["x"], "d")
        .node("MatMulInteger", &["d", "wq", "dz"], "i")
        .node_with("Cast", &["i"], "f", &[("to", AttributeValue::Int(1))])
        .node("Mul", &["f", "ds"], "y");
    let quantise = dynamic.graph().node.iter_mut().find(|node| node.output == ["d"]).unwrap();
    quantise.output = ["d", "ds", "dz"].map(str::to_owned).to_vec();
    let tasks = ["DynamicQuantizeLinear", "QuantisedDense", "Cast", "Mul"];
    check(&dynamic.output("y", FLOAT, None), &tasks, &noise(150, 1));
}

#[test]
fn functions_of_elements() {
    let table = begin(&[3, 7]).node("HardSwish", &["xf"], "h").node("Neg", &["h"], "n");
    let tasks = ["QuantizeLinear", "QuantisedTable", "DequantizeLinear"];
    check(&end(table.clone(), "n"), &tasks, &noise(21, 1));
    let pairs = end(table.clone(), "n").floats("st", &[], &[1.0 / 7.0]).node(
        "DequantizeLinear",
        &["yq", "st", "zero"],
        "yt",
    );
    // Of a tensor and a table of it there is a table.
    let square = pairs.clone().node("Mul", &["xf", "yt"], "s");
    let square = square.node("QuantizeLinear", &["s", "sy", "zero"], "pq");
    let square = square.node("DequantizeLinear", &["pq", "sy", "zero"], "p");
    let mut square = square.output("p", FLOAT, None);
    square.graph().output.remove(0);
    check(&square, &["QuantizeLinear", "QuantisedTable", "DequantizeLinear"], &noise(21, 1));
    let pairs = pairs
        .node("Softmax", &["x"], "z")
        .node("QuantizeLinear", &["z", "sx", "zero"], "zq")
        .node("DequantizeLinear", &["zq", "sx", "zero"], "zf");
    for op in ["Add", "Mul"] {
        let own = pairs.clone().node(op, &["zf", "yt"], "s").node("Relu", &["s"], "r");
        let own = own.node("QuantizeLinear", &["r", "sy", "zero"], "pq");
        let own = own.node("DequantizeLinear", &["pq", "sy", "zero"], "p").output("p", FLOAT, None);
        let tasks = [
            "QuantizeLinear",
            "QuantisedTable",
            "DequantizeLinear",
            "Softmax",
            "QuantizeLinear",
            "QuantisedPair",
            "DequantizeLinear",
        ];
        check(&own, &tasks, &noise(21, 1));
    }
    // What somebody else reads is computed.
    let read = end(table.output("h", FLOAT, None), "n");
    let tasks = ["QuantizeLinear", "DequantizeLinear", "HardSwish", "Neg", "QuantizeLinear"];
    check(&read, &[&tasks[..], &["DequantizeLinear"]].concat(), &noise(21, 1));
}

#[test]
fn what_stays_and_why() {
    let told = |draft: &Draft, node: &str| {
        let fates = draft.compile(&[]).unwrap().fates;
        fates.into_iter().find(|fate| fate.node == node).unwrap().what
    };
    let few =
        end(weights(begin(&[1, 2, 4, 4]), &[3, 2, 1, 1], 0).node("Conv", &["xf", "wf"], "c"), "c");
    assert!(told(&few, "Conv.c").contains("3 maps would fill blocks of 16 too little"));
    let plain = begin(&[1, 2, 4, 4]).floats("k", &[12, 2, 1, 1], &noise(24, 5));
    let plain = end(plain.node("Conv", &["xf", "k"], "c"), "c");
    assert!(told(&plain, "Conv.c").contains("weights are no constants of DequantizeLinear"));
    let other = weights(begin(&[5, 30]), &[30, 20], 0).node("MatMul", &["xf", "wf"], "m");
    assert!(told(&end(other, "m"), "MatMul.m").contains("are not along dim 1"));
    let odd = weights(begin(&[5, 30]), &[30, 20], 1).floats("b", &[20], &noise(20, 6));
    let odd = end(odd.node("Gemm", &["xf", "wf", "b"], "g"), "g");
    assert!(told(&odd, "Gemm.g").contains("its bias is not a whole number of quanta"));
    let turned = weights(begin(&[5, 30]), &[30, 20], 1).floats("minus", &[], &[-0.05]);
    let turned = turned.node("MatMul", &["xf", "wf"], "m").node("Relu", &["m"], "r");
    let turned = turned.node("QuantizeLinear", &["r", "minus", "zero"], "yq");
    let turned = turned.node("DequantizeLinear", &["yq", "sy", "zero"], "y");
    let turned = turned.output("y", FLOAT, None);
    assert!(told(&turned, "MatMul.m").contains("one of its scales is no positive number"));
    let group = [("group", AttributeValue::Int(2))];
    let groups = weights(begin(&[1, 4, 4, 4]), &[16, 2, 1, 1], 0);
    let groups = end(groups.node_with("Conv", &["xf", "wf"], "c", &group), "c");
    assert!(told(&groups, "Conv.c").contains("it has 2 groups of several maps"));
    let taken = weights(begin(&[5, 30]), &[30, 20], 1).node("MatMul", &["xf", "wf"], "m");
    let taken = end(taken, "m");
    assert!(told(&taken, "QuantizeLinear.yq").contains("part of `MatMul.m`"));
    assert!(told(&taken, "MatMul.m").contains("computed with bytes, weights packed"));
}

fn for_vnni(draft: &Draft) -> Compiled {
    let layouts = vec![Layout::Pairs, Layout::Fours];
    compile(draft.bytes(), &Options { layouts, ..Options::default() }).unwrap()
}

#[test]
fn weights_for_two_kinds_of_machines_give_the_same_bits() {
    let pads = [("pads", AttributeValue::Ints(vec![1; 4]))];
    let conv = |maps: i64| {
        let draft = bias(weights(begin(&[1, maps, 6, 7]), &[12, maps, 3, 3], 0), 12);
        end(draft.node_with("Conv", &["xf", "wf", "bf"], "c", &pads), "c")
    };
    let dense = bias(weights(begin(&[5, 30]), &[30, 20], 1), 20);
    let dense = end(dense.node("Gemm", &["xf", "wf", "bf"], "g"), "g");
    for (draft, count) in [(conv(3), 126), (conv(20), 840), (dense, 150)] {
        let (plain, both) = (draft.compile(&[]).unwrap(), for_vnni(&draft));
        assert_eq!(both.om[..], for_vnni(&draft).om[..], "the same bytes every time");
        let sections: Vec<(&str, &str)> =
            both.report.sections.iter().map(|own| (own.name.as_str(), own.isa.as_str())).collect();
        assert_eq!(sections[sections.len() - 1], ("PACKED", "vnni"));
        assert!(plain.report.sections.iter().all(|own| own.isa == "any"));
        assert_eq!(plain.report.weights_bytes, both.report.weights_bytes);
        let told = |own: &Compiled| {
            own.fates.iter().any(|fate| fate.what.contains("; weights for vnni, too"))
        };
        assert!(told(&both) && !told(&plain));
        let load = |own: &Compiled, layout| Model::load_as(own.om.clone(), layout).unwrap();
        let at_load = load(&plain, Layout::Fours).program().packed_bytes();
        assert!(at_load > 0 && load(&both, Layout::Fours).program().packed_bytes() == 0);
        let x = noise(count, 1);
        let expected = run_as(&plain, Layout::Pairs, &[&x]);
        assert!(expected[0].iter().any(|y| *y != expected[0][0]));
        assert_eq!(run_as(&plain, Layout::Fours, &[&x]), expected);
        assert_eq!(run_as(&both, Layout::Fours, &[&x]), expected);
        assert_eq!(run_as(&both, Layout::Pairs, &[&x]), expected);
    }
}

#[test]
fn weights_of_more_than_eight_bits_are_for_every_machine_only() {
    let draft = begin(&[5, 30])
        .floats("w", &[30, 20], &noise(600, 2))
        .floats("sw", &[], &[1.0 / 200.0])
        .node("QuantizeLinear", &["w", "sw", "zero"], "wq")
        .node("DequantizeLinear", &["wq", "sw", "zero"], "wf")
        .node("MatMul", &["xf", "wf"], "m");
    let draft = end(draft, "m");
    let both = for_vnni(&draft);
    assert_eq!(both.om[..], draft.compile(&[]).unwrap().om[..], "there is nothing to pack");
    let fate = both.fates.iter().find(|fate| fate.node == "MatMul.m").unwrap();
    assert!(fate.what.contains("QuantisedDense; weights not for vnni: less"), "{}", fate.what);
}
