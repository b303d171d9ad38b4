// SPDX-License-Identifier: Apache-2.0
// The object comes from LLVM in this process, but every offset is checked: a wrong one must be an
// error, not a wild write.
#include "compiler/codegen/cpu/link.h"

#include <elf.h>

#include <cstring>
#include <map>
#include <string_view>

#include "base/cpu_kernel_abi.h"

namespace halyard::cpu {
namespace {

constexpr uint64_t kPageBytes = 4096;

uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

template <typename T>
bool ReadAt(std::span<const uint8_t> bytes, uint64_t offset, T* out) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  std::memcpy(out, bytes.data() + offset, sizeof(T));
  return true;
}

class Linker {
 public:
  Linker(std::span<const uint8_t> object, std::span<const LinkEntry> entries, uint64_t features)
      : object_(object), entries_(entries), features_(features) {}

  Result<std::vector<uint8_t>> Run() {
    HY_TRY(ReadSections());
    HY_TRY(ReadSymbols());
    HY_TRY(Place());
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (sections_[i].sh_type == SHT_RELA) HY_TRY(Relocate(sections_[i]));
      if (sections_[i].sh_type == SHT_REL) return Internal("The object has REL relocations.");
    }
    HY_TRY(WriteTables());
    return std::move(image_);
  }

 private:
  static Status Malformed() { return Internal("The object that LLVM wrote is malformed."); }

  std::string_view StringAt(const Elf64_Shdr& table, uint64_t offset) const {
    if (offset >= table.sh_size) return "?";
    const char* begin = reinterpret_cast<const char*>(object_.data()) + table.sh_offset + offset;
    return std::string_view(begin, strnlen(begin, table.sh_size - offset));
  }
  std::string_view NameOf(const Elf64_Shdr& section) const {
    return StringAt(sections_[names_], section.sh_name);
  }

  Status ReadSections() {
    Elf64_Ehdr header;
    if (!ReadAt(object_, 0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_type != ET_REL || header.e_machine != EM_X86_64 ||
        header.e_shentsize != sizeof(Elf64_Shdr)) {
      return Malformed();
    }
    // More than 65279 sections use an extended count; one section per module keeps us far below.
    for (uint64_t i = 0; i < header.e_shnum; ++i) {
      Elf64_Shdr section;
      if (!ReadAt(object_, header.e_shoff + i * sizeof(Elf64_Shdr), &section)) return Malformed();
      if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
          (section.sh_offset > object_.size() ||
           object_.size() - section.sh_offset < section.sh_size)) {
        return Malformed();
      }
      sections_.push_back(section);
    }
    names_ = header.e_shstrndx;
    if (names_ >= sections_.size()) return Malformed();
    return OkStatus();
  }

  Status ReadSymbols() {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_SYMTAB) continue;
      if (section.sh_link >= sections_.size()) return Malformed();
      strings_ = sections_[section.sh_link];
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        if (!ReadAt(object_, section.sh_offset + at, &symbol)) return Malformed();
        symbols_.push_back(symbol);
      }
    }
    return OkStatus();
  }

  bool IsKept(const Elf64_Shdr& section) const {
    // Kernels do not unwind; LLVM is told so, this drops what a function attribute missed.
    return (section.sh_flags & SHF_ALLOC) != 0 && section.sh_size > 0 &&
           NameOf(section) != ".eh_frame";
  }

  Status Place() {
    uint64_t names_bytes = 0;
    for (const LinkEntry& entry : entries_) names_bytes += entry.name.size();
    uint64_t end = sizeof(CpuImageHeader) + entries_.size() * sizeof(CpuImageEntry) + names_bytes;
    placed_.assign(sections_.size(), 0);
    for (const bool text : {false, true}) {
      end = AlignUp(end, text ? kPageBytes : 64);
      for (size_t i = 0; i < sections_.size(); ++i) {
        const Elf64_Shdr& section = sections_[i];
        if (!IsKept(section) || ((section.sh_flags & SHF_EXECINSTR) != 0) != text) continue;
        if (section.sh_flags & SHF_WRITE) {
          return Internal("The code has the writable section '{}'; an image has none.",
                          NameOf(section));
        }
        if (section.sh_type != SHT_PROGBITS) {
          return Internal("The code has section '{}' of type {}; an image holds plain bytes.",
                          NameOf(section), section.sh_type);
        }
        end = AlignUp(end, section.sh_addralign ? section.sh_addralign : 1);
        placed_[i] = end;
        end += section.sh_size;
      }
    }
    image_.assign(end, 0);
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (placed_[i] == 0) continue;
      std::memcpy(image_.data() + placed_[i], object_.data() + sections_[i].sh_offset,
                  sections_[i].sh_size);
    }
    return OkStatus();
  }

  Result<uint64_t> AddressOf(const Elf64_Sym& symbol) const {
    const std::string_view name = StringAt(strings_, symbol.st_name);
    if (symbol.st_shndx == SHN_UNDEF) {
      return Internal("The code calls or reads '{}', which is not in the image.", name);
    }
    if (symbol.st_shndx >= sections_.size() || placed_[symbol.st_shndx] == 0) {
      return Internal("The symbol '{}' is not in a section of the image.", name);
    }
    return placed_[symbol.st_shndx] + symbol.st_value;
  }

  Status Relocate(const Elf64_Shdr& table) {
    const uint64_t target = table.sh_info;
    if (target >= sections_.size()) return Malformed();
    if (placed_[target] == 0) return OkStatus();
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= table.sh_size; at += sizeof(Elf64_Rela)) {
      Elf64_Rela rela;
      if (!ReadAt(object_, table.sh_offset + at, &rela)) return Malformed();
      const uint64_t index = ELF64_R_SYM(rela.r_info);
      const uint64_t type = ELF64_R_TYPE(rela.r_info);
      if (index >= symbols_.size()) return Malformed();
      HY_ASSIGN(const uint64_t address, AddressOf(symbols_[index]));
      const uint64_t width = type == R_X86_64_PC64 ? 8 : 4;
      if (type != R_X86_64_PC32 && type != R_X86_64_PLT32 && type != R_X86_64_PC64) {
        return Internal(
            "The code refers to '{}' by relocation {}; only PC-relative ones are resolved.",
            StringAt(strings_, symbols_[index].st_name), type);
      }
      if (rela.r_offset > sections_[target].sh_size ||
          sections_[target].sh_size - rela.r_offset < width) {
        return Malformed();
      }
      const uint64_t place = placed_[target] + rela.r_offset;
      const int64_t value =
          static_cast<int64_t>(address + static_cast<uint64_t>(rela.r_addend) - place);
      if (width == 4) {
        if (value < INT32_MIN || value > INT32_MAX) {
          return Internal("The image is {} bytes; a reference reaches 2 GiB.", image_.size());
        }
        const int32_t narrow = static_cast<int32_t>(value);
        std::memcpy(image_.data() + place, &narrow, sizeof(narrow));
      } else {
        std::memcpy(image_.data() + place, &value, sizeof(value));
      }
    }
    return OkStatus();
  }

  Status WriteTables() {
    std::map<std::string_view, const Elf64_Sym*> by_name;
    for (const Elf64_Sym& symbol : symbols_) {
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
        by_name[StringAt(strings_, symbol.st_name)] = &symbol;
    }
    CpuImageHeader header{};
    header.magic = kCpuImageMagic;
    header.version = kCpuImageVersion;
    header.image_bytes = image_.size();
    header.features = features_;
    header.entry_count = static_cast<uint32_t>(entries_.size());
    std::memcpy(image_.data(), &header, sizeof(header));
    uint64_t name_at = sizeof(header) + entries_.size() * sizeof(CpuImageEntry);
    for (size_t i = 0; i < entries_.size(); ++i) {
      const LinkEntry& entry = entries_[i];
      const auto found = by_name.find(entry.symbol);
      if (found == by_name.end()) return Internal("The object has no function '{}'.", entry.symbol);
      HY_ASSIGN(const uint64_t code, AddressOf(*found->second));
      CpuImageEntry record{};
      record.name_offset = static_cast<uint32_t>(name_at);
      record.name_bytes = static_cast<uint32_t>(entry.name.size());
      record.code_offset = code;
      record.workgroup_memory_bytes = entry.workgroup_memory_bytes;
      record.binding_count = entry.binding_count;
      record.scalar_count = entry.scalar_count;
      std::memcpy(image_.data() + sizeof(header) + i * sizeof(record), &record, sizeof(record));
      std::memcpy(image_.data() + name_at, entry.name.data(), entry.name.size());
      name_at += entry.name.size();
    }
    return OkStatus();
  }

  std::span<const uint8_t> object_;
  std::span<const LinkEntry> entries_;
  uint64_t features_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::vector<uint64_t> placed_;  // offset in the image; 0: not kept
  Elf64_Shdr strings_{};
  size_t names_ = 0;
  std::vector<uint8_t> image_;
};

}  // namespace

Result<std::vector<uint8_t>> LinkFlatImage(std::span<const uint8_t> object,
                                           std::span<const LinkEntry> entries, uint64_t features) {
  return Linker(object, entries, features).Run();
}

}  // namespace halyard::cpu
