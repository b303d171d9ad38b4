// SPDX-License-Identifier: Apache-2.0
// Every opcode, dtype and number of lanes becomes a module that the validator of SPIR-V accepts for
// Vulkan 1.2, with every feature of a target and with fewer.
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <spirv-tools/libspirv.hpp>

#include "base/check.h"
#include "base/gpu_image.h"
#include "compiler/codegen/spirv/emit.h"
#include "compiler/codegen/spirv/khr_enums.h"
#include "compiler/kernel/builder.h"
#include "compiler/kernel/opcode.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "tests/codegen/gpu_cases.h"
#include "tests/codegen/op_cases.h"
#include "tests/codegen/spirv/module_checker.h"
#include "tests/codegen/spirv/spirv_val.h"

namespace halyard::testing {
namespace {

using kernel::Opcode;

Target TargetWithout(std::initializer_list<GpuFeature> features) {
  Result<Target> target = ParseTarget("vulkan-32");
  HY_CHECK(target.ok());
  for (GpuFeature feature : features) target->gpu.features &= ~static_cast<uint64_t>(feature);
  return *std::move(target);
}

class SpirvOps : public ::testing::TestWithParam<Opcode> {};

TEST_P(SpirvOps, AreValid) {
  const Target targets[] = {
      TargetWithout({}),
      TargetWithout({GpuFeature::kWorkgroupStorage8, GpuFeature::kWorkgroupStorage16,
                     GpuFeature::kFloatControls, GpuFeature::kDenormPreserve}),
  };
  kernel::Module module;
  for (const OpCase& c : CasesFor(GetParam(), true)) module.kernels.push_back(c.kernel);
  ASSERT_FALSE(module.kernels.empty());
  int failures = 0;
  for (const Target& target : targets) {
    Result<std::vector<uint8_t>> bytes = spirv::EmitSpirvImage(module, target);
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    Result<GpuImage> image = ReadGpuImage(*bytes);
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    ASSERT_EQ(image->kernels.size(), module.kernels.size());
    for (const GpuKernel& k : image->kernels) {
      const std::string problems = ValidateSpirv(k.module);
      EXPECT_TRUE(problems.empty()) << k.name << ": " << problems;
      if (!problems.empty() && ++failures > 3) return;
    }
  }
}

std::vector<Opcode> OpsToTest() {
  std::vector<Opcode> ops;
  for (int i = 0; i < kernel::kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const kernel::OpcodeInfo& info = kernel::InfoOf(opcode);
    if (info.transcendental || info.op_class == kernel::OpClass::kFragment ||
        info.op_class == kernel::OpClass::kCpu) {
      continue;
    }
    if (!CasesFor(opcode, true).empty()) ops.push_back(opcode);
  }
  return ops;
}

std::vector<uint32_t> WordsOf(const GpuKernel& kernel) {
  std::vector<uint32_t> words(kernel.module.size() / 4);
  std::memcpy(words.data(), kernel.module.data(), kernel.module.size());
  return words;
}

// Both judges; matrices are for ours alone.
TEST(SpirvGpuOps, AreValid) {
  Target with_matrices = TargetWithout({});
  with_matrices.gpu.matrix_shapes = {
      {DType::kF16, DType::kF32, 16, 16, 16}, {DType::kF16, DType::kF16, 16, 16, 16},
      {DType::kF16, DType::kF16, 16, 8, 16},  {DType::kBF16, DType::kF32, 16, 16, 16},
      {DType::kI8, DType::kI32, 16, 16, 32},  {DType::kU8, DType::kI32, 16, 16, 32}};
  const Target targets[] = {
      with_matrices,
      TargetWithout({GpuFeature::kWorkgroupStorage8, GpuFeature::kWorkgroupStorage16}),
  };
  for (const Target& target : targets) {
    for (const std::string& family : GpuCaseFamilies()) {
      kernel::Module module;
      for (const GpuCase& c : GpuCasesFor(family, target.gpu)) module.kernels.push_back(c.c.kernel);
      const bool has_none =
          family == "products" || (family == "fragments" && target.gpu.matrix_shapes.empty());
      EXPECT_EQ(module.kernels.empty(), has_none);
      if (has_none) continue;
      const Status verified = kernel::VerifyModule(module);
      ASSERT_TRUE(verified.ok()) << verified.ToString();
      Result<std::vector<uint8_t>> bytes = spirv::EmitSpirvImage(module, target);
      ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
      Result<GpuImage> image = ReadGpuImage(*bytes);
      ASSERT_TRUE(image.ok()) << image.status().ToString();
      int failures = 0;
      for (const GpuKernel& k : image->kernels) {
        const std::string problem = CheckSpirvModule(WordsOf(k));
        EXPECT_EQ(problem, "") << k.name;
        const std::string problems = family == "fragments" ? "" : ValidateSpirv(k.module);
        EXPECT_TRUE(problems.empty()) << k.name << ": " << problems;
        if ((!problem.empty() || !problems.empty()) && ++failures > 3) break;
      }
    }
  }
}

// Changing one word of a module makes it invalid in most places. Our checker sees what concerns
// structure and types; the validator also knows literals such as scopes and member indices.
TEST(SpirvGpuOps, OurCheckerFindsWhatIsBroken) {
  const Target target = TargetWithout({});
  const std::vector<GpuCase> cases = GpuCasesFor("control", target.gpu);
  kernel::Module module;
  module.kernels.push_back(cases[0].c.kernel);
  Result<std::vector<uint8_t>> bytes = spirv::EmitSpirvImage(module, target);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  Result<GpuImage> image = ReadGpuImage(*bytes);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  const std::vector<uint32_t> words = WordsOf(image->kernels[0]);
  ASSERT_EQ(CheckSpirvModule(words), "");
  int found = 0;
  int missed = 0;
  for (size_t at = words.size() / 2; at < words.size(); ++at) {
    std::vector<uint32_t> changed = words;
    changed[at] += 1;
    spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
    tools.SetMessageConsumer(
        [](spv_message_level_t, const char*, const spv_position_t&, const char*) {});
    if (tools.Validate(changed)) continue;
    CheckSpirvModule(changed).empty() ? ++missed : ++found;
  }
  EXPECT_GT(found, 100);
  EXPECT_LT(missed * 5, found) << found << " found, " << missed << " missed";
}

struct ModuleOp {
  spv::Op op;
  std::span<const uint32_t> operands;  // with type and result
};
std::vector<ModuleOp> ModuleOpsOf(const std::vector<uint32_t>& words) {
  std::vector<ModuleOp> out;
  for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
    out.push_back({static_cast<spv::Op>(words[at] & 0xffff),
                   std::span(words).subspan(at + 1, (words[at] >> 16) - 1)});
  }
  return out;
}
std::map<uint32_t, uint32_t> ConstantsOf(std::span<const ModuleOp> instructions) {
  std::map<uint32_t, uint32_t> values;
  for (const ModuleOp& i : instructions) {
    if (i.op == spv::Op::OpConstant) values[i.operands[1]] = i.operands[2];
  }
  return values;
}

// One module for each kernel of a family.
Result<GpuImage> EmitFamily(const char* family, const Target& target, kernel::Module* module,
                            std::vector<uint8_t>* bytes) {
  for (const GpuCase& c : GpuCasesFor(family, target.gpu)) module->kernels.push_back(c.c.kernel);
  HY_ASSIGN(*bytes, spirv::EmitSpirvImage(*module, target));
  return ReadGpuImage(*bytes);
}

// What no device that runs a workgroup in step can show: everyone's writes are made before the
// count and seen after it.
TEST(SpirvGpuOps, ArrivalsAreOrdered) {
  kernel::Module module;
  std::vector<uint8_t> bytes;
  const Result<GpuImage> image = EmitFamily("arrivals", TargetWithout({}), &module, &bytes);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  const auto ordered = static_cast<uint32_t>(spv::MemorySemanticsMask::AcquireRelease |
                                             spv::MemorySemanticsMask::UniformMemory);
  for (const GpuKernel& k : image->kernels) {
    SCOPED_TRACE(k.name);
    const std::vector<uint32_t> words = WordsOf(k);
    const std::vector<ModuleOp> instructions = ModuleOpsOf(words);
    std::map<uint32_t, uint32_t> value = ConstantsOf(instructions);
    int barriers = 0, before = -1;
    for (const ModuleOp& i : instructions) {
      if (i.op == spv::Op::OpControlBarrier) {
        ++barriers;
        EXPECT_EQ(value[i.operands[2]] & ordered, ordered);
      } else if (i.op == spv::Op::OpAtomicIAdd) {
        before = barriers;
        EXPECT_EQ(value[i.operands[4]] & ordered, ordered);
      }
    }
    // Kernels with an allocation of their own have one barrier more, for it.
    const int own = k.name.ends_with("_m") ? 1 : 0;
    EXPECT_EQ(before, own + 1);
    EXPECT_EQ(barriers, own + 2);
  }
}

// Sixteen bits of a word are cut out and joined within 32-bit words; a driver makes several
// instructions of each conversion between the two, and kernels of bf16 are bound by them.
TEST(SpirvGpuOps, HalvesOfWordsStayInWords) {
  const auto emit = [](bool computes) {
    kernel::Builder b("halves");
    const kernel::BufferId x = b.Parameter("x", DType::kBF16, kernel::Access::kRead);
    const kernel::BufferId y = b.Parameter("y", DType::kBF16, kernel::Access::kReadWrite);
    kernel::ValueId value = b.Load(x, b.Index(0), 8);
    if (computes) value = b.Convert(b.Neg(b.Convert(value, DType::kF32)), DType::kBF16);
    b.Store(y, b.Index(0), value);
    kernel::Module module;
    module.kernels.push_back(std::move(b).Finish());
    for (kernel::Op& op : module.kernels[0].ops) {
      if (op.opcode == Opcode::kLoad || op.opcode == Opcode::kStore) op.immediates = {8};
    }
    Result<std::vector<uint8_t>> bytes = spirv::EmitSpirvImage(module, TargetWithout({}));
    HY_CHECK(bytes.ok());
    const Result<GpuImage> image = ReadGpuImage(*bytes);
    EXPECT_EQ(ValidateSpirv(image->kernels[0].module), "");
    std::map<spv::Op, int> counts;
    for (const ModuleOp& i : ModuleOpsOf(WordsOf(image->kernels[0]))) ++counts[i.op];
    return counts;
  };
  std::map<spv::Op, int> copies = emit(false);
  for (const spv::Op op : {spv::Op::OpShiftLeftLogical, spv::Op::OpShiftRightLogical,
                           spv::Op::OpBitwiseAnd, spv::Op::OpBitwiseOr, spv::Op::OpUConvert}) {
    EXPECT_EQ(copies[op], 0) << static_cast<int>(op);
  }
  std::map<spv::Op, int> computes = emit(true);
  EXPECT_EQ(computes[spv::Op::OpShiftLeftLogical], 4);    // lower elements become f32
  EXPECT_EQ(computes[spv::Op::OpBitwiseOr], 4);           // pairs of results
  EXPECT_EQ(computes[spv::Op::OpBitwiseAnd], 4 + 8 + 4);  // upper ones; last bits kept; pairs
}

// Lavapipe has no matrices, so that only a GPU would see a layout that is the other one.
TEST(SpirvGpuOps, FragmentsLieAsTheKernelSays) {
  Target target = TargetWithout({});
  target.gpu.matrix_shapes = {{DType::kF16, DType::kF32, 16, 16, 16}};
  kernel::Module module;
  std::vector<uint8_t> bytes;
  const Result<GpuImage> image = EmitFamily("fragments", target, &module, &bytes);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  int columns = 0;
  for (size_t n = 0; n < module.kernels.size(); ++n) {
    std::vector<uint32_t> wanted, found;
    for (const kernel::Op& op : module.kernels[n].ops) {
      if (op.opcode != Opcode::kFragmentLoad && op.opcode != Opcode::kFragmentStore) continue;
      const bool is_rows =
          op.immediates[0] == static_cast<int64_t>(kernel::FragmentLayout::kRowMajor);
      wanted.push_back(is_rows ? spirv::kMatrixRowMajor : spirv::kMatrixColumnMajor);
      columns += !is_rows;
    }
    const std::vector<uint32_t> words = WordsOf(image->kernels[n]);
    const std::vector<ModuleOp> instructions = ModuleOpsOf(words);
    std::map<uint32_t, uint32_t> value = ConstantsOf(instructions);
    for (const ModuleOp& i : instructions) {
      if (i.op == spirv::kOpCooperativeMatrixLoad || i.op == spirv::kOpCooperativeMatrixStore) {
        const bool is_load = i.op == spirv::kOpCooperativeMatrixLoad;
        found.push_back(value.at(i.operands[is_load ? 3 : 2]));
      }
    }
    EXPECT_EQ(found, wanted) << module.kernels[n].name;
  }
  EXPECT_GT(columns, 0);
}

TEST(SpirvGpuOps, FragmentsNeedShapes) {
  Target target = TargetWithout({});
  target.gpu.matrix_shapes = {{DType::kF16, DType::kF32, 16, 16, 16}};
  kernel::Module module;
  for (const GpuCase& c : GpuCasesFor("fragments", target.gpu)) {
    module.kernels.push_back(c.c.kernel);
  }
  target.gpu.matrix_shapes = {{DType::kBF16, DType::kF32, 16, 16, 16}};
  const Result<std::vector<uint8_t>> bytes = spirv::EmitSpirvImage(module, target);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(bytes.status().message(),
            "Kernel 'fragments_f16_f32_16x16x16_rows_global' has a fragment f16.a.16x16; target "
            "'vulkan-32' has no matrix unit for it.");
}

INSTANTIATE_TEST_SUITE_P(All, SpirvOps, ::testing::ValuesIn(OpsToTest()), [](const auto& info) {
  return std::string(kernel::FormatOpcode(info.param));
});

}  // namespace
}  // namespace halyard::testing
