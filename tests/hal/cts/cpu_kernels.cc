// SPDX-License-Identifier: Apache-2.0
// The test kernels as a CPU image of hand-assembled x86-64 code, and broken variants of it.
#include <cstring>

#include "base/cpu_kernel_abi.h"
#include "tests/hal/cts/test_kernels.h"

namespace halyard::cts {
namespace {

// rdi: CpuDispatchArgs (bindings at 0, scalars at 8, error at 16, workgroup memory at 24, dispatch
// index at 32); rsi, rdx, rcx: workgroup x, y, z.
const std::vector<uint8_t> kAddScalarCode = {
    0x48, 0x8b, 0x07,        // mov rax, [rdi]
    0x4c, 0x8b, 0x00,        // mov r8, [rax]
    0x4c, 0x8b, 0x48, 0x08,  // mov r9, [rax+8]
    0x48, 0x8b, 0x47, 0x08,  // mov rax, [rdi+8]
    0x48, 0x8b, 0x00,        // mov rax, [rax]
    0x49, 0x03, 0x04, 0xf0,  // add rax, [r8+rsi*8]
    0x49, 0x89, 0x04, 0xf1,  // mov [r9+rsi*8], rax
    0xc3,                    // ret
};

const std::vector<uint8_t> kGatherCode = {
    0x48, 0x8b, 0x07,                                // mov rax, [rdi]
    0x4c, 0x8b, 0x00,                                // mov r8, [rax]
    0x4c, 0x8b, 0x48, 0x08,                          // mov r9, [rax+8]
    0x4c, 0x8b, 0x50, 0x10,                          // mov r10, [rax+16]
    0x48, 0x8b, 0x47, 0x08,                          // mov rax, [rdi+8]
    0x48, 0x8b, 0x08,                                // mov rcx, [rax]
    0x49, 0x8b, 0x14, 0xf1,                          // mov rdx, [r9+rsi*8]
    0x48, 0x39, 0xca,                                // cmp rdx, rcx
    0x73, 0x09,                                      // jae report
    0x49, 0x8b, 0x04, 0xd0,                          // mov rax, [r8+rdx*8]
    0x49, 0x89, 0x04, 0xf2,                          // mov [r10+rsi*8], rax
    0xc3,                                            // ret
    0x4c, 0x8b, 0x47, 0x10,                          // report: mov r8, [rdi+16]
    0x31, 0xc0,                                      // xor eax, eax
    0x41, 0xb9, 0x01, 0x00, 0x00, 0x00,              // mov r9d, 1
    0xf0, 0x45, 0x0f, 0xb1, 0x08,                    // lock cmpxchg [r8], r9d
    0x75, 0x1f,                                      // jne done
    0x8b, 0x47, 0x20,                                // mov eax, [rdi+32]
    0x41, 0x89, 0x40, 0x04,                          // mov [r8+4], eax
    0x41, 0xc7, 0x40, 0x08, 0x01, 0x00, 0x00, 0x00,  // mov dword [r8+8], 1
    0x41, 0xc7, 0x40, 0x0c, 0x01, 0x00, 0x00, 0x00,  // mov dword [r8+12], 1
    0x49, 0x89, 0x50, 0x10,                          // mov [r8+16], rdx
    0x49, 0x89, 0x48, 0x18,                          // mov [r8+24], rcx
    0xc3,                                            // done: ret
};

const std::vector<uint8_t> kGridCode = {
    0x48, 0x8b, 0x07,                          // mov rax, [rdi]
    0x4c, 0x8b, 0x00,                          // mov r8, [rax]
    0x48, 0x8b, 0x47, 0x08,                    // mov rax, [rdi+8]
    0x4c, 0x8b, 0x08,                          // mov r9, [rax]
    0x4c, 0x8b, 0x50, 0x08,                    // mov r10, [rax+8]
    0x4c, 0x0f, 0xaf, 0xd1,                    // imul r10, rcx
    0x49, 0x01, 0xd2,                          // add r10, rdx
    0x4d, 0x0f, 0xaf, 0xd1,                    // imul r10, r9
    0x49, 0x01, 0xf2,                          // add r10, rsi
    0x48, 0x69, 0xd2, 0xe8, 0x03, 0x00, 0x00,  // imul rdx, rdx, 1000
    0x48, 0x69, 0xc9, 0x40, 0x42, 0x0f, 0x00,  // imul rcx, rcx, 1000000
    0x48, 0x01, 0xca,                          // add rdx, rcx
    0x48, 0x01, 0xf2,                          // add rdx, rsi
    0xf0, 0x4b, 0x01, 0x14, 0xd0,              // lock add [r8+r10*8], rdx
    0xc3,                                      // ret
};

const std::vector<uint8_t> kScratchCode = {
    0x48, 0x8b, 0x07,                          // mov rax, [rdi]
    0x4c, 0x8b, 0x00,                          // mov r8, [rax]
    0x4c, 0x8b, 0x4f, 0x18,                    // mov r9, [rdi+24]
    0x49, 0x89, 0x31,                          // mov [r9], rsi
    0x49, 0x89, 0xb1, 0xf8, 0x0f, 0x00, 0x00,  // mov [r9+4088], rsi
    0x4d, 0x89, 0xca,                          // mov r10, r9
    0x49, 0x83, 0xe2, 0x3f,                    // and r10, 63
    0x4d, 0x69, 0xd2, 0x40, 0x42, 0x0f, 0x00,  // imul r10, r10, 1000000
    0x4d, 0x03, 0x11,                          // add r10, [r9]
    0x4d, 0x03, 0x91, 0xf8, 0x0f, 0x00, 0x00,  // add r10, [r9+4088]
    0x4d, 0x89, 0x14, 0xf0,                    // mov [r8+rsi*8], r10
    0xc3,                                      // ret
};

template <typename T>
void Put(std::vector<uint8_t>* image, size_t offset, const T& value) {
  std::memcpy(image->data() + offset, &value, sizeof(value));
}

struct ImageEntry {
  std::string name;
  std::vector<uint8_t> code;
  uint64_t workgroup_memory_bytes = 0;
  uint32_t binding_count = 0;
  uint32_t scalar_count = 0;
};

std::vector<uint8_t> BuildImage(const std::vector<ImageEntry>& entries, uint64_t features = 0) {
  std::vector<uint8_t> image(sizeof(CpuImageHeader) + entries.size() * sizeof(CpuImageEntry));
  std::vector<CpuImageEntry> table;
  for (const ImageEntry& entry : entries) {
    CpuImageEntry row = {};
    row.name_offset = static_cast<uint32_t>(image.size());
    row.name_bytes = static_cast<uint32_t>(entry.name.size());
    row.workgroup_memory_bytes = entry.workgroup_memory_bytes;
    row.binding_count = entry.binding_count;
    row.scalar_count = entry.scalar_count;
    image.insert(image.end(), entry.name.begin(), entry.name.end());
    table.push_back(row);
  }
  constexpr size_t kPage = 4096;
  image.resize((image.size() + kPage - 1) / kPage * kPage);
  for (size_t i = 0; i < entries.size(); ++i) {
    image.resize((image.size() + 15) / 16 * 16);
    table[i].code_offset = image.size();
    image.insert(image.end(), entries[i].code.begin(), entries[i].code.end());
    Put(&image, sizeof(CpuImageHeader) + i * sizeof(CpuImageEntry), table[i]);
  }
  CpuImageHeader header = {};
  header.magic = kCpuImageMagic;
  header.version = kCpuImageVersion;
  header.image_bytes = image.size();
  header.features = features;
  header.entry_count = static_cast<uint32_t>(entries.size());
  Put(&image, 0, header);
  return image;
}

std::vector<uint8_t> GoodImage() {
  return BuildImage({{"add_scalar", kAddScalarCode, 0, 2, 1},
                     {"gather", kGatherCode, 0, 3, 1},
                     {"grid", kGridCode, 0, 1, 2},
                     {"scratch", kScratchCode, 4096, 1, 0}});
}

class CpuTestKernels final : public TestKernels {
 public:
  std::string_view format() const override { return "cpu-image"; }
  std::vector<uint8_t> Image(const hal::Capabilities&) const override { return GoodImage(); }
  size_t table_bytes() const override { return sizeof(CpuImageHeader) + 4 * sizeof(CpuImageEntry); }

  std::vector<ImageCase> BadImages(const hal::Capabilities&) const override {
    const std::vector<uint8_t> good = GoodImage();
    constexpr StatusCode kDataLoss = StatusCode::kDataLoss;
    constexpr StatusCode kIncompatible = StatusCode::kIncompatible;
    size_t entry = sizeof(CpuImageHeader) + sizeof(CpuImageEntry);  // the second
    uint32_t first_name;
    std::memcpy(&first_name, good.data() + sizeof(CpuImageHeader), sizeof(first_name));
    std::vector<uint8_t> twice = With(good, entry + 0, first_name);
    twice = With(twice, entry + 4, uint32_t{10});
    return {
        {{}, kDataLoss, "0 bytes"},
        {{good.begin(), good.begin() + 31}, kDataLoss, "31 bytes"},
        {{good.begin(), good.end() - 1}, kDataLoss, "says that it has"},
        {With(good, 0, uint32_t{1}), kDataLoss, "starts with"},
        {With(good, 4, uint32_t{99}), kIncompatible, "version 99"},
        {With(good, 8, uint64_t{1} << 60), kDataLoss, "says that it has"},
        {With(good, 16, uint64_t{1} << 63), kIncompatible, "bit 63"},
        {With(good, 24, uint32_t{0}), kDataLoss, "0 entries"},
        {With(good, 24, UINT32_MAX), kDataLoss, "4294967295 entries"},
        {With(good, 28, uint32_t{5}), kDataLoss, "reserved"},
        {With(good, entry + 0, uint32_t{8}), kDataLoss, "The name of entry 1"},
        {With(good, entry + 0, UINT32_MAX), kDataLoss, "The name of entry 1"},
        {With(good, entry + 4, uint32_t{0}), kDataLoss, "The name of entry 1"},
        {With(good, entry + 4, UINT32_MAX), kDataLoss, "The name of entry 1"},
        {With(good, entry + 8, uint64_t{good.size()}), kDataLoss, "The code of entry 'gather'"},
        {With(good, entry + 8, uint64_t{40}), kDataLoss, "The code of entry 'gather'"},
        {With(good, entry + 16, uint64_t{1} << 40), kDataLoss, "workgroup memory"},
        {With(good, entry + 24, uint32_t{1} << 20), kDataLoss, "bindings"},
        {With(good, entry + 28, uint32_t{1} << 20), kDataLoss, "scalars"},
        {twice, kDataLoss, "two entries named 'add_scalar'"},
    };
  }

  std::vector<ImageCase> FeatureImages(const hal::Capabilities& capabilities) const override {
    uint64_t have = capabilities.compute.cpu_features.ValueOr(0);
    std::vector<ImageCase> cases;
    for (CpuFeature feature :
         {CpuFeature::kSse42, CpuFeature::kAvx2, CpuFeature::kAvx512, CpuFeature::kAvx512Vnni,
          CpuFeature::kAvx512Bf16, CpuFeature::kAvx512Fp16, CpuFeature::kAmxTile,
          CpuFeature::kAmxInt8, CpuFeature::kAmxBf16}) {
      auto bit = static_cast<uint64_t>(feature);
      ImageCase image{BuildImage({{"nothing", {0xc3}, 0, 0, 0}}, bit), StatusCode::kOk, ""};
      if (!(have & bit)) {
        image.expected = StatusCode::kIncompatible;
        image.part = "this device lacks";
      }
      cases.push_back(std::move(image));
    }
    return cases;
  }
};

}  // namespace

const TestKernels& CpuKernels() {
  static const CpuTestKernels kernels;
  return kernels;
}

}  // namespace halyard::cts
