// SPDX-License-Identifier: Apache-2.0
// The flat-image linker on objects made by hand: what it resolves and what it refuses, by name.
#include "compiler/codegen/cpu/link.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/cpu_kernel_abi.h"

namespace halyard::cpu {
namespace {

// An object with .text (16 bytes), .rodata (8 bytes), the function "f" and one relocation at text
// + 4.
struct ObjectOptions {
  uint32_t relocation = R_X86_64_PC32;
  bool defined = true;  // the relocation's symbol "table" lies in .rodata
  uint64_t rodata_flags = SHF_ALLOC;
  uint64_t relocation_offset = 4;
};

std::vector<uint8_t> MakeObject(const ObjectOptions& options) {
  const char strings[] = "\0f\0table\0.text\0.rodata\0.eh_frame";
  const uint32_t kTextName = 9, kRodataName = 15;
  std::vector<uint8_t> bytes(sizeof(Elf64_Ehdr));
  const auto append = [&bytes](const void* data, size_t size) {
    const size_t at = bytes.size();
    bytes.resize(at + size);
    std::memcpy(bytes.data() + at, data, size);
    return at;
  };
  const uint8_t text[16] = {0x90, 0x90, 0x90, 0x90};
  const uint8_t rodata[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  Elf64_Sym symbols[3] = {};
  symbols[1] = {1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0, 16};
  symbols[2] = {3, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                0, static_cast<Elf64_Section>(options.defined ? 2 : 0),
                2, 4};
  const Elf64_Rela rela = {options.relocation_offset, ELF64_R_INFO(2, options.relocation), -4};
  Elf64_Shdr sections[6] = {};
  sections[1] = {
      kTextName, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0, append(text, 16), 16, 0, 0, 16, 0};
  sections[2] = {
      kRodataName, SHT_PROGBITS, options.rodata_flags, 0, append(rodata, 8), 8, 0, 0, 32, 0};
  sections[3] = {0, SHT_SYMTAB,       0, 0, append(symbols, sizeof(symbols)), sizeof(symbols), 4, 1,
                 8, sizeof(Elf64_Sym)};
  sections[4] = {0, SHT_STRTAB, 0, 0, append(strings, sizeof(strings)), sizeof(strings),
                 0, 0,          1, 0};
  sections[5] = {0, SHT_RELA, 0, 0,           append(&rela, sizeof(rela)), sizeof(rela),
                 3, 1,        8, sizeof(rela)};
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_type = ET_REL;
  header.e_machine = EM_X86_64;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 6;
  header.e_shstrndx = 4;
  header.e_shoff = append(sections, sizeof(sections));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

const LinkEntry kEntry = {"kernel", "f", 128, 2, 1};

TEST(Link, ResolvesPcRelativeReferences) {
  Result<std::vector<uint8_t>> image = LinkFlatImage(MakeObject({}), {&kEntry, 1}, 3);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  CpuImageHeader header;
  CpuImageEntry entry;
  std::memcpy(&header, image->data(), sizeof(header));
  std::memcpy(&entry, image->data() + sizeof(header), sizeof(entry));
  EXPECT_EQ(header.image_bytes, image->size());
  EXPECT_EQ(header.features, 3u);
  EXPECT_EQ(entry.code_offset % 4096, 0u);
  EXPECT_EQ(entry.workgroup_memory_bytes, 128u);
  int32_t displacement = 0;
  std::memcpy(&displacement, image->data() + entry.code_offset + 4, 4);
  // The displacement counts from the end of its four bytes; "table" is byte 2 of .rodata.
  EXPECT_EQ(
      (*image)[static_cast<size_t>(static_cast<int64_t>(entry.code_offset) + 8 + displacement)], 3);
}

TEST(Link, NamesWhatItRefuses) {
  const struct {
    ObjectOptions options;
    const char* message;
  } cases[] = {
      {{R_X86_64_PLT32, false, SHF_ALLOC, 4}, "'table', which is not in the image"},
      {{R_X86_64_64, true, SHF_ALLOC, 4}, "refers to 'table' by relocation 1"},
      {{R_X86_64_GOTPCREL, true, SHF_ALLOC, 4}, "refers to 'table' by relocation 9"},
      {{R_X86_64_PC32, true, SHF_ALLOC | SHF_WRITE, 4}, "writable section '.rodata'"},
      {{R_X86_64_PC32, true, SHF_ALLOC, 13}, "malformed"},
      {{R_X86_64_PC32, true, SHF_ALLOC, UINT64_MAX}, "malformed"},
  };
  for (const auto& c : cases) {
    Result<std::vector<uint8_t>> image = LinkFlatImage(MakeObject(c.options), {&kEntry, 1}, 0);
    ASSERT_FALSE(image.ok()) << c.message;
    EXPECT_EQ(image.status().code(), StatusCode::kInternal);
    EXPECT_NE(image.status().message().find(c.message), std::string::npos)
        << image.status().message();
  }
  const LinkEntry missing = {"kernel", "g", 0, 0, 0};
  EXPECT_FALSE(LinkFlatImage(MakeObject({}), {&missing, 1}, 0).ok());
}

TEST(Link, SurvivesEveryTruncation) {
  const std::vector<uint8_t> object = MakeObject({});
  for (size_t size = 0; size < object.size(); ++size) {
    EXPECT_FALSE(LinkFlatImage({object.data(), size}, {&kEntry, 1}, 0).ok()) << size;
  }
}

}  // namespace
}  // namespace halyard::cpu
