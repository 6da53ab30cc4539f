//! Convolutions of 3 x 3 in blocks get their form with fewer products where it pays.

use npu::ops::blocked::{BlockedConv, BlockedWinograd, pack_winograd};

use crate::typed::{TensorIndex, Typed};

impl Typed {
    /// Replaces them, and packs their weights anew.
    pub(crate) fn fewer_products(&mut self) {
        for index in 0..self.nodes.len() {
            let Some((op, weights)) = self.in_fewer(index) else { continue };
            let node = &mut self.nodes[index];
            (node.op, node.inputs[1]) = (Box::new(op), weights);
            let output = node.output();
            self.story.tell(output, "made from 16 products of 2 x 2 pixels instead of 36");
        }
    }

    /// The form of a node, and its weights.
    fn in_fewer(&mut self, node: usize) -> Option<(BlockedWinograd, TensorIndex)> {
        let node = &self.nodes[node];
        let &BlockedConv { window, activation } = node.op.as_any().downcast_ref::<BlockedConv>()?;
        let (old, dims) = (node.inputs[1], self.shape(node.inputs[1]));
        let in_blocks = self.shape(node.inputs[0]).rank() == 5;
        if !in_blocks || !BlockedWinograd::pays(&window, dims.dims(), &self.shape(node.output())) {
            return None;
        }
        let (dims, packed) = pack_winograd(dims.dims(), &self.constant_floats(old)?)?;
        let name = self.tensors[old].name.clone();
        Some((BlockedWinograd { window, activation }, self.add_floats(&name, &dims, &packed)?))
    }
}

#[cfg(test)]
mod tests {
    use npu::ops::AttributeValue;

    use crate::testing::{D, Draft, FLOAT, check, noise};

    impl Draft {
        /// A convolution of 3 x 3 with pads of 1.
        fn three(self, inputs: &[&str], output: &str, steps: i64) -> Self {
            let attributes = [
                ("pads", AttributeValue::Ints(vec![1; 4])),
                ("strides", AttributeValue::Ints(vec![steps; 2])),
            ];
            self.node_with("Conv", inputs, output, &attributes)
        }
    }

    /// x [1, 3, 9, 9] → 32 maps → `c`, 3 x 3 → …
    fn draft() -> Draft {
        let small = |count, seed| noise(count, seed).iter().map(|x| x * 0.1).collect::<Vec<f32>>();
        Draft::new(15)
            .input("x", FLOAT, &[D::N(1), D::N(3), D::N(9), D::N(9)])
            .floats("a", &[32, 3, 1, 1], &small(96, 2))
            .floats("b", &[48, 32, 3, 3], &small(48 * 32 * 9, 3))
            .floats("d", &[48, 48, 3, 3], &small(48 * 48 * 9, 4))
            .node("Conv", &["x", "a"], "first")
            .three(&["first", "b"], "c", 1)
    }

    #[test]
    fn three_by_three_with_its_function_and_a_sum() {
        let one = draft().node("Relu", &["c"], "y").output("y", FLOAT, None);
        let x = noise(243, 1);
        check(&one, &["BlockedConv", "BlockedWinograd+Relu", "FromBlocked"], &x);
        let sum = draft()
            .three(&["c", "d"], "e", 1)
            .node("Add", &["e", "c"], "s")
            .node("Relu", &["s"], "y")
            .output("y", FLOAT, None);
        let tasks = ["BlockedConv", "BlockedWinograd", "BlockedWinograd+Relu", "FromBlocked"];
        check(&sum, &tasks, &x);
        let fates = sum.compile(&[]).unwrap().fates;
        let told = fates.iter().filter(|fate| format!("{fate:?}").contains("16 products"));
        assert_eq!(told.count(), 2);
    }

    #[test]
    fn steps_and_few_pixels_stay_direct() {
        let x = noise(243, 1);
        let steps = draft().three(&["c", "d"], "y", 2).output("y", FLOAT, None);
        check(&steps, &["BlockedConv", "BlockedWinograd", "BlockedConv", "FromBlocked"], &x);
        let few =
            draft().three(&["c", "d"], "e", 4).three(&["e", "d"], "y", 1).output("y", FLOAT, None);
        let tasks = ["BlockedConv", "BlockedWinograd", "BlockedConv", "BlockedConv", "FromBlocked"];
        check(&few, &tasks, &x);
    }
}
