// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/cubin.h"

#include <elf.h>

#include <cstring>

namespace halyard::drivers::cuda {

Status CheckCubin(std::span<const uint8_t> code) {
  Elf64_Ehdr header;
  if (code.size() < sizeof(header)) {
    return DataLoss("A CUBIN of {} bytes is shorter than its header of {}.", code.size(),
                    sizeof(header));
  }
  std::memcpy(&header, code.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
    return DataLoss("A CUBIN does not start as a 64-bit ELF file.");
  }
  auto is_inside = [&](uint64_t offset, uint64_t bytes) {
    return offset <= code.size() && bytes <= code.size() - offset;
  };
  if (header.e_shentsize != sizeof(Elf64_Shdr) ||
      !is_inside(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)) ||
      (header.e_phnum > 0 &&
       (header.e_phentsize != sizeof(Elf64_Phdr) ||
        !is_inside(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr))))) {
    return DataLoss("A CUBIN of {} bytes has its tables outside.", code.size());
  }
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, &code[header.e_shoff + i * sizeof(section)], sizeof(section));
    if (section.sh_type == SHT_NOBITS || is_inside(section.sh_offset, section.sh_size)) continue;
    return DataLoss("Section {} of a CUBIN of {} bytes lies outside.", i, code.size());
  }
  return OkStatus();
}

}  // namespace halyard::drivers::cuda
