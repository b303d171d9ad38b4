// SPDX-License-Identifier: Apache-2.0
// The test kernels as a SPIR-V image, assembled instruction by instruction, and broken variants.
#include "tests/hal/cts/spirv_kernels.h"

#include <cstring>

#include "base/gpu_image.h"
#include "drivers/vulkan/spirv_builder.h"
#include "tests/hal/cts/test_kernels.h"

namespace halyard::cts {
namespace {

using drivers::vulkan::SpirvBuilder;
using Id = SpirvBuilder::Id;

// The address of element `index`, 64 bits, of an array of i64.
Id ElementOf(SpirvBuilder& b, Id array, Id index) {
  Id offset = b.Op(spv::OpIMul, b.Uint(64), {index, b.Constant64(8)});
  return b.Op(spv::OpIAdd, b.Uint(64), {array, offset});
}

Id Wide(SpirvBuilder& b, Id value) { return b.Op(spv::OpUConvert, b.Uint(64), {value}); }

// Arguments: the bindings, the scalars, the error record, the index of the dispatch.
std::vector<uint32_t> MakeAddScalar() {
  SpirvBuilder b("add_scalar", 1, 5);
  Id wide = b.Uint(64), x = Wide(b, b.WorkgroupId(0));
  Id value = b.LoadFrom(ElementOf(b, b.Argument(0), x), wide, 8);
  Id sum = b.Op(spv::OpIAdd, wide, {value, b.Argument(2)});
  b.StoreTo(ElementOf(b, b.Argument(1), x), wide, sum, 8);
  return b.Finish();
}

std::vector<uint32_t> MakeGather() {
  SpirvBuilder b("gather", 1, 6);
  Id wide = b.Uint(64), word = b.Uint(32), x = Wide(b, b.WorkgroupId(0));
  Id index = b.LoadFrom(ElementOf(b, b.Argument(1), x), wide, 8), extent = b.Argument(3);
  Id error = b.Argument(4);
  auto field = [&](uint64_t offset) {
    return b.Op(spv::OpIAdd, wide, {error, b.Constant64(offset)});
  };
  b.If(
      b.Op(spv::OpULessThan, b.Bool(), {index, extent}),
      [&] {
        Id value = b.LoadFrom(ElementOf(b, b.Argument(0), index), wide, 8);
        b.StoreTo(ElementOf(b, b.Argument(2), x), wide, value, 8);
      },
      [&] {
        Id device = b.Constant32(spv::ScopeDevice);
        Id relaxed = b.Constant32(spv::MemorySemanticsMaskNone);
        Id before = b.Op(
            spv::OpAtomicCompareExchange, word,
            {b.PointerTo(error, word), device, relaxed, relaxed, b.Constant32(1), b.Constant32(0)});
        b.If(b.Op(spv::OpIEqual, b.Bool(), {before, b.Constant32(0)}), [&] {
          b.StoreTo(field(4), word, b.Op(spv::OpUConvert, word, {b.Argument(5)}), 4);
          b.StoreTo(field(8), word, b.Constant32(1), 4);   // an index out of range
          b.StoreTo(field(12), word, b.Constant32(1), 4);  // at site 1
          b.StoreTo(field(16), wide, index, 8);
          b.StoreTo(field(24), wide, extent, 8);
        });
      });
  return b.Finish();
}

std::vector<uint32_t> MakeGrid() {
  SpirvBuilder b("grid", 1, 5);
  Id wide = b.Uint(64);
  Id x = Wide(b, b.WorkgroupId(0)), y = Wide(b, b.WorkgroupId(1)), z = Wide(b, b.WorkgroupId(2));
  auto times = [&](Id value, Id by) { return b.Op(spv::OpIMul, wide, {value, by}); };
  auto plus = [&](Id value, Id by) { return b.Op(spv::OpIAdd, wide, {value, by}); };
  Id row = plus(times(z, b.Argument(2)), y);
  Id place = ElementOf(b, b.Argument(0), plus(times(row, b.Argument(1)), x));
  Id value = plus(plus(x, times(y, b.Constant64(1000))), times(z, b.Constant64(1000000)));
  b.StoreTo(place, wide, plus(b.LoadFrom(place, wide, 8), value), 8);
  return b.Finish();
}

std::vector<uint32_t> MakeScratch() {
  SpirvBuilder b("scratch", 1, 3);
  Id wide = b.Uint(64), x = Wide(b, b.WorkgroupId(0));
  Id array = b.Type(spv::OpTypeArray, {wide, b.Constant32(512)});
  Id memory = b.WorkgroupVariable(array);
  Id pointer = b.Pointer(spv::StorageClassWorkgroup, wide);
  Id first = b.Op(spv::OpAccessChain, pointer, {memory, b.Constant32(0)});
  Id last = b.Op(spv::OpAccessChain, pointer, {memory, b.Constant32(511)});
  b.Do(spv::OpStore, {first, x});
  b.Do(spv::OpStore, {last, x});
  Id sum =
      b.Op(spv::OpIAdd, wide, {b.Op(spv::OpLoad, wide, {first}), b.Op(spv::OpLoad, wide, {last})});
  b.StoreTo(ElementOf(b, b.Argument(0), x), wide, sum, 8);
  return b.Finish();
}

std::span<const uint8_t> BytesOf(const std::vector<uint32_t>& words) {
  return {reinterpret_cast<const uint8_t*>(words.data()), 4 * words.size()};
}

std::vector<uint8_t> ImageOf(const std::vector<SpirvKernel>& kernels,
                             GpuModuleKind kind = GpuModuleKind::kSpirv) {
  GpuImage image;
  image.kind = kind;
  for (const SpirvKernel& kernel : kernels) {
    GpuKernel added;
    added.name = kernel.name;
    added.module = BytesOf(kernel.words);
    added.binding_count = kernel.binding_count;
    added.scalar_count = kernel.scalar_count;
    image.kernels.push_back(added);
  }
  return WriteGpuImage(image);
}

class SpirvTestKernelsInImages final : public TestKernels {
 public:
  std::string_view format() const override { return "spirv-image"; }

  std::vector<uint8_t> Image(const hal::Capabilities&) const override {
    return ImageOf(SpirvTestKernels());
  }

  size_t table_bytes() const override { return sizeof(GpuImageHeader) + 4 * sizeof(GpuImageEntry); }

  std::vector<ImageCase> BadImages(const hal::Capabilities& capabilities) const override {
    const std::vector<uint8_t> good = Image(capabilities);
    constexpr StatusCode kDataLoss = StatusCode::kDataLoss;
    constexpr StatusCode kIncompatible = StatusCode::kIncompatible;
    const std::vector<SpirvKernel> kernels = SpirvTestKernels();
    // One kernel with its module changed.
    auto changed = [&](auto change) {
      SpirvKernel kernel = kernels[0];
      change(&kernel);
      return ImageOf({kernel});
    };
    auto table = [&](auto change) {
      std::vector<uint8_t> image = ImageOf({kernels[0]});
      GpuImageEntry entry;
      std::memcpy(&entry, &image[sizeof(GpuImageHeader)], sizeof(entry));
      change(&entry);
      std::memcpy(&image[sizeof(GpuImageHeader)], &entry, sizeof(entry));
      return image;
    };
    return {
        {{}, kDataLoss, "0 bytes"},
        {{good.begin(), good.end() - 1}, kDataLoss, "says that it has"},
        {With(good, 0, uint32_t{1}), kDataLoss, "starts with"},
        {ImageOf({}), kDataLoss, "no entries"},
        {ImageOf(kernels, GpuModuleKind::kPtx), kDataLoss, "modules of kind 2"},
        {changed([](SpirvKernel* k) { k->words.resize(4); }), kDataLoss, "16 bytes"},
        {changed([](SpirvKernel* k) { k->words[0] = 7; }), kDataLoss, "starts with 0x7"},
        {changed([](SpirvKernel* k) { k->words[1] = 0x20000; }), kIncompatible, "SPIR-V 2.0"},
        {changed([](SpirvKernel* k) { k->words[3] = 0; }), kDataLoss, "the bound 0"},
        {changed([](SpirvKernel* k) { k->words[5] = 0; }), kDataLoss, "has 0 words"},
        {changed([](SpirvKernel* k) { k->words[5] = 0xffff0000; }), kDataLoss, "are left"},
        {changed([](SpirvKernel* k) { k->words.pop_back(); }), kDataLoss, "within a function"},
        {changed([](SpirvKernel* k) { k->name = "subtract"; }), kDataLoss,
         "no kernel of that name"},
        {changed([](SpirvKernel* k) { k->binding_count = 1; }), kDataLoss,
         "an argument at byte 32"},
        {changed([](SpirvKernel* k) { k->binding_count = 20; }), kDataLoss, "one address"},
        {table([](GpuImageEntry* e) { e->workgroup_size[1] = 2; }), kDataLoss, "module says 1 x 1"},
        {table([](GpuImageEntry* e) { e->subgroup_size = 4096; }), kIncompatible,
         "subgroups of 4096"},
        {table([](GpuImageEntry* e) { e->dynamic_workgroup_bytes = 64; }), kIncompatible,
         "64 bytes of workgroup memory at launch"},
    };
  }

  std::vector<ImageCase> FeatureImages(const hal::Capabilities& capabilities) const override {
    const uint64_t have = capabilities.compute.gpu_features.ValueOr(0);
    struct Row {
      GpuFeature feature;
      uint32_t capability;
      const char* name;
    };
    // A kernel may state a capability without using it.
    const Row rows[] = {
        {GpuFeature::kInt8, spv::CapabilityInt8, "Int8"},
        {GpuFeature::kInt16, spv::CapabilityInt16, "Int16"},
        {GpuFeature::kFloat16, spv::CapabilityFloat16, "Float16"},
        {GpuFeature::kFloat64, spv::CapabilityFloat64, "Float64"},
        {GpuFeature::kStorage16, spv::CapabilityStorageBuffer16BitAccess,
         "StorageBuffer16BitAccess"},
        {GpuFeature::kAtomicInt64, spv::CapabilityInt64Atomics, "Int64Atomics"},
        {GpuFeature::kMatrix, 6022, "CooperativeMatrixKHR"},
    };
    std::vector<ImageCase> cases;
    for (const Row& row : rows) {
      SpirvBuilder b("nothing", 1, 2);
      b.AddCapability(static_cast<spv::Capability>(row.capability));
      ImageCase image{ImageOf({{"nothing", b.Finish(), 0, 0}}), StatusCode::kOk, ""};
      if (!(have & static_cast<uint64_t>(row.feature))) {
        image.expected = StatusCode::kIncompatible;
        image.part = fmt::format("capability {}, which this device lacks", row.name);
      }
      cases.push_back(std::move(image));
    }
    return cases;
  }
};

}  // namespace

std::vector<SpirvKernel> SpirvTestKernels() {
  return {{"add_scalar", MakeAddScalar(), 2, 1},
          {"gather", MakeGather(), 3, 1},
          {"grid", MakeGrid(), 1, 2},
          {"scratch", MakeScratch(), 1, 0}};
}

const TestKernels& SpirvKernels() {
  static const SpirvTestKernelsInImages kernels;
  return kernels;
}

}  // namespace halyard::cts
