// SPDX-License-Identifier: Apache-2.0
// Reading and writing of program files.
#include "compiler/program/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/cpu_kernel_abi.h"
#include "base/gpu_kernel_abi.h"
#include "base/hash.h"
#include "base/output_file.h"
#include "base/quantity.h"
#include "compiler/program/archive.h"

namespace halyard::program {
namespace {

enum class SectionKind : uint32_t { kTables = 1, kRequirements = 2, kCode = 3, kData = 4 };

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t section_count;
  uint64_t file_bytes;
  uint64_t table_hash;  // of the section table
};
struct Section {
  uint32_t kind;
  uint32_t index;  // of the executable, for code
  uint64_t offset;
  uint64_t size_bytes;
  uint64_t hash;
};
static_assert(sizeof(FileHeader) == 32 && sizeof(Section) == 32);
constexpr char kMagic[8] = {'H', 'A', 'L', 'Y', 'P', 'R', 'O', 'G'};
constexpr uint32_t kMaxSections = 1u << 16;

template <typename T>
std::span<const uint8_t> BytesOf(const T* items, size_t count) {
  return {reinterpret_cast<const uint8_t*>(items), count * sizeof(T)};
}

uint64_t AlignUp(uint64_t value) { return (value + kDataAlignment - 1) & ~(kDataAlignment - 1); }

struct ParsedFile {
  FileHeader header;
  std::vector<Section> sections;
};

Result<ParsedFile> ParseHead(std::span<const uint8_t> bytes) {
  ParsedFile file;
  if (bytes.size() < sizeof(FileHeader)) {
    return DataLoss("The program file has {}; its header alone takes {}.",
                    Counted(bytes.size(), "byte"), sizeof(FileHeader));
  }
  std::memcpy(&file.header, bytes.data(), sizeof(FileHeader));
  if (std::memcmp(file.header.magic, kMagic, sizeof(kMagic)) != 0) {
    return DataLoss("The file is not a Halyard program: its first bytes are not 'HALYPROG'.");
  }
  if (file.header.version != kFileVersion) {
    return Incompatible("The program file has version {}; this Halyard reads version {}.",
                        file.header.version, kFileVersion);
  }
  if (file.header.file_bytes != bytes.size()) {
    return DataLoss("The program file has {}; its header says {}.", Counted(bytes.size(), "byte"),
                    file.header.file_bytes);
  }
  if (file.header.section_count > kMaxSections) {
    return DataLoss("The program file has {} sections; at most {} are allowed.",
                    file.header.section_count, kMaxSections);
  }
  const uint64_t table_bytes = uint64_t{file.header.section_count} * sizeof(Section);
  if (table_bytes > bytes.size() - sizeof(FileHeader)) {
    return DataLoss("The section table of the program file ends beyond the file.");
  }
  const auto table = bytes.subspan(sizeof(FileHeader), table_bytes);
  if (HashBytes(table) != file.header.table_hash) {
    return DataLoss("The section table of the program file is corrupted.");
  }
  file.sections.resize(file.header.section_count);
  if (!table.empty()) std::memcpy(file.sections.data(), table.data(), table.size());
  for (const Section& section : file.sections) {
    if (section.offset > bytes.size() || section.size_bytes > bytes.size() - section.offset) {
      return DataLoss("A section of the program file takes bytes {} to {} + {}; the file has {}.",
                      section.offset, section.offset, section.size_bytes, bytes.size());
    }
  }
  return file;
}

Result<const Section*> FindOne(const ParsedFile& file, SectionKind kind) {
  const Section* found = nullptr;
  for (const Section& section : file.sections) {
    if (section.kind != static_cast<uint32_t>(kind)) continue;
    if (found != nullptr) {
      return DataLoss("The program file has two sections of kind {}.", section.kind);
    }
    found = &section;
  }
  if (found == nullptr) {
    return DataLoss("The program file has no section of kind {}.", static_cast<uint32_t>(kind));
  }
  return found;
}

Result<std::span<const uint8_t>> CheckedBytes(std::span<const uint8_t> bytes,
                                              const Section& section, std::string_view what) {
  const auto part = bytes.subspan(section.offset, section.size_bytes);
  if (HashBytes(part) != section.hash) {
    return DataLoss("The program file is corrupted: the hash of the {} differs.", what);
  }
  return part;
}

Status ReadCode(std::span<const uint8_t> bytes, const ParsedFile& file, Program& program) {
  std::vector<bool> seen(program.executables.size(), false);
  for (const Section& section : file.sections) {
    if (section.kind != static_cast<uint32_t>(SectionKind::kCode)) continue;
    if (section.index >= program.executables.size() || seen[section.index]) {
      return DataLoss("The program file has code for executable {}, which is unknown or has some.",
                      section.index);
    }
    seen[section.index] = true;
    HY_ASSIGN(const auto code, CheckedBytes(bytes, section, "code"));
    program.executables[section.index].code.assign(code.begin(), code.end());
  }
  return OkStatus();
}

// A file mapped read-only for as long as the object lives.
class Mapping {
 public:
  Mapping(void* address, size_t size) : address_(address), size_(size) {}
  ~Mapping() { munmap(address_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const uint8_t> bytes() const { return {static_cast<const uint8_t*>(address_), size_}; }

 private:
  void* address_;
  size_t size_;
};

Status SystemFailure(std::string_view doing, const std::string& path) {
  const int error = errno;
  return Unavailable("{} '{}' fails: {}.", doing, path, std::strerror(error));
}

}  // namespace

uint64_t NeededFeatures(const Executable& executable, const Target& target) {
  if (executable.format == "cpu-image" && executable.code.size() >= sizeof(CpuImageHeader)) {
    CpuImageHeader header;
    std::memcpy(&header, executable.code.data(), sizeof(header));
    if (header.magic == kCpuImageMagic) return header.features;
  }
  return target.cpu_features;
}

Status Write(const Program& program, const Sink& sink) {
  HY_TRY(Verify(program));
  Program tables;  // the same without code and data, which are sections of their own
  tables.model_name = program.model_name;
  tables.content_hash = program.content_hash;
  tables.symbols = program.symbols;
  tables.devices = program.devices;
  tables.constants = program.constants;
  tables.entries = program.entries;
  tables.records = program.records;
  std::vector<Requirement> requirements;
  for (const Executable& executable : program.executables) {
    tables.executables.push_back({executable.device, executable.format, executable.entries, {}});
    const Target& target = program.devices[executable.device].target;
    requirements.push_back(
        {executable.format, target.kind, target.triple, NeededFeatures(executable, target)});
  }
  ArchiveWriter table_writer, requirement_writer;
  VisitTables(table_writer, tables);
  VisitRequirements(requirement_writer, requirements);
  const std::vector<uint8_t> table_bytes = table_writer.TakeBytes();
  const std::vector<uint8_t> requirement_bytes = requirement_writer.TakeBytes();

  std::vector<Section> sections;
  std::vector<std::span<const uint8_t>> contents;
  const auto add = [&](SectionKind kind, uint32_t index, std::span<const uint8_t> bytes) {
    sections.push_back({static_cast<uint32_t>(kind), index, 0, bytes.size(), HashBytes(bytes)});
    contents.push_back(bytes);
  };
  add(SectionKind::kRequirements, 0, requirement_bytes);
  add(SectionKind::kTables, 0, table_bytes);
  for (size_t i = 0; i < program.executables.size(); ++i) {
    add(SectionKind::kCode, static_cast<uint32_t>(i), program.executables[i].code);
  }
  add(SectionKind::kData, 0, program.DataBytes());
  if (sections.size() > kMaxSections) {
    return OutOfRange("The program has {} sections; a file holds at most {}.", sections.size(),
                      kMaxSections);
  }

  FileHeader header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kFileVersion;
  header.section_count = static_cast<uint32_t>(sections.size());
  uint64_t end = sizeof(FileHeader) + sections.size() * sizeof(Section);
  for (Section& section : sections) {
    section.offset = AlignUp(end);
    end = section.offset + section.size_bytes;
  }
  header.file_bytes = end;
  header.table_hash = HashBytes(BytesOf(sections.data(), sections.size()));
  HY_TRY(sink(BytesOf(&header, 1)));
  HY_TRY(sink(BytesOf(sections.data(), sections.size())));
  uint64_t at = sizeof(FileHeader) + sections.size() * sizeof(Section);
  const uint8_t zeros[kDataAlignment] = {};
  for (size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].offset > at) HY_TRY(sink({zeros, sections[i].offset - at}));
    if (!contents[i].empty()) HY_TRY(sink(contents[i]));
    at = sections[i].offset + sections[i].size_bytes;
  }
  return OkStatus();
}

Status Save(const Program& program, const std::string& path) {
  HY_ASSIGN(const auto file, OutputFile::Create(path));
  HY_TRY(Write(program, [&](std::span<const uint8_t> bytes) { return file->Append(bytes); }));
  return file->Finish(true);
}

Result<Program> LoadFromMemory(std::span<const uint8_t> bytes,
                               std::shared_ptr<const void> keep_alive, const LoadOptions& options) {
  HY_ASSIGN(const ParsedFile file, ParseHead(bytes));
  HY_TRY(ReadRequirements(bytes));
  HY_ASSIGN(const Section* tables, FindOne(file, SectionKind::kTables));
  HY_ASSIGN(const auto table_bytes, CheckedBytes(bytes, *tables, "tables"));
  Program program;
  ArchiveReader reader(table_bytes);
  VisitTables(reader, program);
  HY_TRY(reader.Finish());
  HY_TRY(ReadCode(bytes, file, program));
  HY_ASSIGN(const Section* data, FindOne(file, SectionKind::kData));
  if (data->offset % kDataAlignment != 0) {
    return DataLoss(
        "The constants of the program file start at byte {}; a multiple of {} is needed.",
        data->offset, kDataAlignment);
  }
  auto data_bytes = bytes.subspan(data->offset, data->size_bytes);
  if (options.verify_data) HY_TRY(CheckedBytes(bytes, *data, "data"));
  if (keep_alive != nullptr &&
      reinterpret_cast<uintptr_t>(data_bytes.data()) % kDataAlignment == 0) {
    program.mapped_data = data_bytes;
    program.mapping = std::move(keep_alive);
  } else {
    program.data.assign(data_bytes.begin(), data_bytes.end());
  }
  if (Status status = Verify(program); !status.ok()) {
    return DataLoss("The program file holds a wrong program: {}", status.ToLine());
  }
  return program;
}

Result<Program> Load(const std::string& path, const LoadOptions& options) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    if (errno == ENOENT) return NotFound("There is no program file '{}'.", path);
    return SystemFailure("Opening", path);
  }
  struct stat info;
  void* address = MAP_FAILED;
  if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
      static_cast<uint64_t>(info.st_size) <= kMaxFileBytes) {
    address =
        mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  } else {
    close(descriptor);
    return DataLoss("'{}' is no program file: it is empty, too large or not a regular file.", path);
  }
  if (address == MAP_FAILED) {
    Status status = SystemFailure("Mapping", path);
    close(descriptor);
    return status;
  }
  close(descriptor);
  auto mapping = std::make_shared<Mapping>(address, static_cast<size_t>(info.st_size));
  const auto bytes = mapping->bytes();
  auto program = LoadFromMemory(bytes, std::move(mapping), options);
  if (!program.ok()) return program.status().WithContext(fmt::format("loading '{}'", path));
  return program;
}

Result<std::vector<Requirement>> ReadRequirements(std::span<const uint8_t> bytes) {
  HY_ASSIGN(const ParsedFile file, ParseHead(bytes));
  HY_ASSIGN(const Section* section, FindOne(file, SectionKind::kRequirements));
  HY_ASSIGN(const auto part, CheckedBytes(bytes, *section, "target requirements"));
  std::vector<Requirement> requirements;
  ArchiveReader reader(part);
  VisitRequirements(reader, requirements);
  HY_TRY(reader.Finish());
  return requirements;
}

Status CheckTarget(const Target& needed, const Target& available) {
  if (needed.kind != available.kind) {
    return Incompatible("The code was made for another kind of device than '{}'.", available.name);
  }
  if (needed.kind == TargetKind::kCpu) {
    if (needed.triple != available.triple) {
      return Incompatible("The code was made for '{}'; device '{}' is '{}'.", needed.triple,
                          available.name, available.triple);
    }
    const uint64_t missing = needed.cpu_features & ~available.cpu_features;
    if (missing != 0) {
      return Incompatible("The code needs CPU features {:#x} that device '{}' lacks (bits {:#x}).",
                          needed.cpu_features, available.name, missing);
    }
    return OkStatus();
  }
  const GpuTarget &want = needed.gpu, &have = available.gpu;
  if (want.compute_capability != have.compute_capability) {
    return Incompatible("The code was made for sm_{}; device '{}' is sm_{}.",
                        want.compute_capability, available.name, have.compute_capability);
  }
  if (const uint64_t missing = want.features & ~have.features; missing != 0) {
    return Incompatible("The code needs GPU features {:#x} that device '{}' lacks (bits {:#x}).",
                        want.features, available.name, missing);
  }
  if (want.subgroup_size != have.subgroup_size) {
    return Incompatible("The code was made for subgroups of {}; device '{}' has {}.",
                        want.subgroup_size, available.name, have.subgroup_size);
  }
  if (want.workgroup_memory_bytes > have.workgroup_memory_bytes ||
      want.max_workgroup_size > have.max_workgroup_size) {
    return Incompatible(
        "The code may use workgroups of {} with {} bytes of memory; device '{}' allows {} and {}.",
        want.max_workgroup_size, want.workgroup_memory_bytes, available.name,
        have.max_workgroup_size, have.workgroup_memory_bytes);
  }
  if (want.max_loop_iterations > have.max_loop_iterations) {
    return Incompatible(
        "The code may have long loops; device '{}' ends those of a workitem after {} iterations.",
        available.name, have.max_loop_iterations);
  }
  return OkStatus();
}

}  // namespace halyard::program
