// SPDX-License-Identifier: Apache-2.0
#include "tests/hal/cts/test_image.h"

#include <cstring>

#include "base/cpu_kernel_abi.h"

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

}  // namespace

std::vector<uint8_t> BuildImage(const std::vector<ImageEntry>& entries, uint64_t features) {
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

std::vector<uint8_t> TestImage() {
  return BuildImage({{"add_scalar", kAddScalarCode, 0, 2, 1},
                     {"gather", kGatherCode, 0, 3, 1},
                     {"grid", kGridCode, 0, 1, 2},
                     {"scratch", kScratchCode, 4096, 1, 0}});
}

}  // namespace halyard::cts
