// SPDX-License-Identifier: Apache-2.0
// The seed models, written field by field.
#include "tests/compiler/import/seed_models.h"

#include "tests/compiler/import/model_writer.h"

namespace halyard::onnx::testing {

// Small models that between them have weights, shape arithmetic, windows, control flow and
// functions.
std::vector<std::string> SeedModels() {
  std::vector<std::string> seeds;
  seeds.push_back(
      ModelOf({{Node("Conv", {"x", "w", "b"}, {"c"}, {IntsAttribute("pads", {1, 1, 1, 1})}),
                Node("Relu", {"c"}, {"r"}),
                Node("MaxPool", {"r"}, {"p"}, {IntsAttribute("kernel_shape", {2, 2})}),
                Node("GlobalAveragePool", {"p"}, {"g"}), Node("Flatten", {"g"}, {"y"})},
               {FloatTensor("w", {2, 1, 3, 3}, std::vector<float>(18, 0.5f)),
                FloatTensor("b", {2}, {1, 2})},
               {ValueInfo("x", kF32, {"n", 1, 8, 8})},
               {ValueInfo("y", kF32, {"n", 2})}})
          .str());
  seeds.push_back(
      ModelOf(
          {{Node("Shape", {"x"}, {"s"}), Node("Slice", {"s", "zero", "one"}, {"n"}),
            Node("Concat", {"n", "rest"}, {"t"}, {IntAttribute("axis", 0)}),
            Node("Reshape", {"x", "t"}, {"f"}), Node("MatMul", {"f", "w"}, {"m"}),
            Node("Softmax", {"m"}, {"q"}),
            Node("Gather", {"q", "idx"}, {"y"}, {IntAttribute("axis", 1)}),
            Node("Einsum", {"q", "q"}, {"e"}, {TextAttribute("equation", "ij,kj->ik")}),
            Node("Resize", {"x", "", "scales"}, {"z"}, {TextAttribute("mode", "nearest")})},
           {IntTensor("zero", {1}, {0}), IntTensor("one", {1}, {1}), IntTensor("rest", {1}, {-1}),
            FloatTensor("w", {6, 4}, std::vector<float>(24, 0.25f)), IntTensor("idx", {2}, {0, 3}),
            FloatTensor("scales", {3}, {1, 2, 2})},
           {ValueInfo("x", kF32, {"n", 2, 3})},
           {ValueInfo("y", kF32, {"n", 2}), ValueInfo("e", kF32, {"n", "n"}),
            ValueInfo("z", kF32, {"", "", ""})}})
          .str());
  const Message then_graph =
      GraphOf({{Node("Add", {"x", "x"}, {"t"})}, {}, {}, {ValueInfo("t", kF32, {2})}});
  const Message else_graph =
      GraphOf({{Node("F", {"x"}, {"e"}, {}, "", "custom")}, {}, {}, {ValueInfo("e", kF32, {2})}});
  Message function;
  function.Text(1, "F").Text(4, "a").Text(5, "b").Text(10, "custom");
  function.Sub(7, Node("Pad", {"a", "p"}, {"c"}));
  function.Sub(7, Node("Constant", {}, {"p"}, {IntsAttribute("value_ints", {0, 0})}));
  function.Sub(7, Node("Neg", {"c"}, {"b"}));
  function.Sub(9, Message().Varint(2, 17));
  seeds.push_back(ModelOf({{Node("If", {"c"}, {"y"},
                                 {GraphAttribute("then_branch", then_graph),
                                  GraphAttribute("else_branch", else_graph)})},
                           {},
                           {ValueInfo("c", kBool, {}), ValueInfo("x", kF32, {2})},
                           {ValueInfo("y", kF32, {2})}},
                          17, {function}, {"custom"})
                      .str());
  return seeds;
}

}  // namespace halyard::onnx::testing
