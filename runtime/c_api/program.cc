// SPDX-License-Identifier: Apache-2.0
// C functions of programs: compiling, loading, saving, and what they tell.
#include <algorithm>
#include <chrono>

#include "base/quantity.h"
#include "compiler/program/file.h"
#include "runtime/c_api/handles.h"
#include "runtime/compile.h"
#include "runtime/device_target.h"
#include "runtime/explain_node.h"
#include "runtime/report.h"
#include "runtime/symbol_binding.h"

using namespace halyard;           // NOLINT: the C functions are the outermost layer
using namespace halyard::runtime;  // NOLINT

namespace {

constexpr size_t kCompileDescSize = 136;
constexpr size_t kLoadDescSize = 72;
constexpr size_t kTensorInfoSize = 184;
constexpr size_t kSymbolInfoSize = 56;
constexpr size_t kMemoryInfoSize = 56;
static_assert(sizeof(hy_compile_desc) >= kCompileDescSize);
static_assert(sizeof(hy_program_load_desc) >= kLoadDescSize);
static_assert(sizeof(hy_tensor_info) >= kTensorInfoSize);
static_assert(sizeof(hy_symbol_info) >= kSymbolInfoSize &&
              sizeof(hy_memory_info) >= kMemoryInfoSize);

Result<std::vector<Ref<hal::Device>>> ReadDevices(hy_device_t* const* devices, size_t count) {
  if (count > 0) HY_REQUIRE(devices);
  std::vector<Ref<hal::Device>> out;
  for (size_t i = 0; i < count; ++i) {
    if (devices[i] == nullptr) return InvalidArgument("Device {} of the list is NULL.", i);
    out.push_back(devices[i]->device);
  }
  return out;
}

Result<std::map<std::string, int64_t>> ReadSymbols(const hy_symbol_value* symbols, size_t count) {
  if (count > 0) HY_REQUIRE(symbols);
  std::map<std::string, int64_t> out;
  for (size_t i = 0; i < count; ++i) {
    HY_ASSIGN(const std::string name, ToString(symbols[i].name, "symbols"));
    if (!out.emplace(name, symbols[i].value).second) {
      return InvalidArgument("Symbol '{}' is given twice.", name);
    }
  }
  return out;
}

Status MakeHandle(std::shared_ptr<Instance> instance, std::shared_ptr<LoadedProgram> program,
                  hy_program_t** out) {
  auto handle = std::make_unique<hy_program>();
  handle->instance = std::move(instance);
  handle->program = std::move(program);
  const program::Program& p = handle->program->program();
  if (p.entries.empty()) return InvalidArgument("The program has no entry.");
  for (const program::TensorDesc& t : p.entries.front().inputs) {
    handle->input_shapes.push_back(FormatDims(p, t));
  }
  for (const program::TensorDesc& t : p.entries.front().outputs) {
    handle->output_shapes.push_back(FormatDims(p, t));
  }
  *out = handle.release();
  return OkStatus();
}

// "cuda" is "cuda:0"; the options of a path are not part of a device's name.
Result<std::string> ReadDeviceName(hy_string text, std::string_view field) {
  HY_ASSIGN(const std::string path, ToString(text, field));
  HY_ASSIGN(hal::DevicePath parsed, hal::ParseDevicePath(path));
  parsed.options.clear();
  return hal::FormatDevicePath(parsed);
}

Status ReadPlacement(const hy_compile_desc& d, CompileJob& job) {
  place::Options& placement = job.options.placement;
  if (d.affinity_count > 0) HY_REQUIRE(d.affinities);
  for (size_t i = 0; i < d.affinity_count; ++i) {
    const hy_affinity& given = d.affinities[i];
    place::Affinity& affinity = placement.affinities.emplace_back();
    HY_ASSIGN(affinity.pattern, ToString(given.pattern, "affinities"));
    if (affinity.pattern.empty()) return InvalidArgument("Affinity {} has no pattern.", i);
    HY_ASSIGN(affinity.device, ReadDeviceName(given.device, "affinities"));
    switch (given.kind) {
      case HY_AFFINITY_REQUIRE:
        affinity.strength = place::Strength::kRequire;
        break;
      case HY_AFFINITY_PREFER:
        affinity.strength = place::Strength::kPrefer;
        break;
      case HY_AFFINITY_FORBID:
        affinity.strength = place::Strength::kForbid;
        break;
      default:
        return InvalidArgument("There is no affinity kind {}; {} to {} are kinds.", given.kind,
                               HY_AFFINITY_REQUIRE, HY_AFFINITY_FORBID);
    }
  }
  if (d.memory_cap_count > 0) HY_REQUIRE(d.memory_caps);
  for (size_t i = 0; i < d.memory_cap_count; ++i) {
    place::MemoryCap& cap = placement.memory_caps.emplace_back();
    HY_ASSIGN(cap.device, ReadDeviceName(d.memory_caps[i].device, "memory_caps"));
    cap.bytes = d.memory_caps[i].size_bytes;
    if (cap.bytes < 1) {
      return InvalidArgument("The memory cap of '{}' is {} bytes; it must be at least 1.",
                             cap.device, cap.bytes);
    }
    for (size_t j = 0; j < i; ++j) {
      if (placement.memory_caps[j].device == cap.device) {
        return InvalidArgument("Device '{}' has two memory caps; one is possible.", cap.device);
      }
    }
  }
  job.verify_plan = d.verify_plan != 0;
  job.replan = d.replan != 0;
  job.first_probe = d.no_first_probe == 0;
  return OkStatus();
}

Result<Precision> ReadPrecision(hy_precision precision) {
  switch (precision) {
    case HY_PRECISION_AS_GIVEN:
      return Precision::kAsGiven;
    case HY_PRECISION_F16:
      return Precision::kF16;
    default:
      return InvalidArgument("There is no precision {}; {} and {} are precisions.", precision,
                             HY_PRECISION_AS_GIVEN, HY_PRECISION_F16);
  }
}

Status ReadVendorLibraries(hy_vendor_libraries libraries, CompileOptions& options) {
  if (libraries < HY_VENDOR_LIBRARIES_RACE || libraries > HY_VENDOR_LIBRARIES_ALONE) {
    return InvalidArgument("There is no hy_vendor_libraries {}; {} to {} are possible.", libraries,
                           HY_VENDOR_LIBRARIES_RACE, HY_VENDOR_LIBRARIES_ALONE);
  }
  options.vendor_libraries = libraries != HY_VENDOR_LIBRARIES_OFF;
  options.only_vendor_libraries = libraries == HY_VENDOR_LIBRARIES_ALONE;
  return OkStatus();
}

struct LoadRequest {
  program::Program program;
  std::vector<Ref<hal::Device>> devices;
  double seconds = 0;
};

Result<LoadRequest> ReadLoad(const hy_program_load_desc* desc) {
  hy_program_load_desc d = HY_PROGRAM_LOAD_DESC_INIT;
  HY_TRY(ReadStruct(desc, HY_STRUCT_PROGRAM_LOAD_DESC, kLoadDescSize, "hy_program_load_desc", d));
  const auto start = std::chrono::steady_clock::now();
  LoadRequest request;
  HY_ASSIGN(request.devices, ReadDevices(d.devices, d.device_count));
  HY_ASSIGN(const std::string path, ToString(d.path, "path"));
  if (path.empty() == (d.data == nullptr)) {
    return InvalidArgument("A program is loaded from a path or from data; {} given.",
                           path.empty() ? "neither is" : "both are");
  }
  program::LoadOptions options;
  options.verify_data = d.trust_data == 0;
  if (!path.empty()) {
    HY_ASSIGN(request.program, program::Load(path, options));
  } else {
    const auto* bytes = static_cast<const uint8_t*>(d.data);
    HY_ASSIGN(request.program, program::LoadFromMemory({bytes, d.size_bytes}, nullptr, options));
  }
  request.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return request;
}

}  // namespace

hy_result hy_program_compile(hy_instance_t* instance, const hy_compile_desc* desc,
                             hy_program_t** out_program) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(instance);
    HY_REQUIRE(out_program);
    hy_compile_desc d = HY_COMPILE_DESC_INIT;
    HY_TRY(ReadStruct(desc, HY_STRUCT_COMPILE_DESC, kCompileDescSize, "hy_compile_desc", d));
    CompileJob job;
    HY_ASSIGN(job.source.path, ToString(d.onnx_path, "onnx_path"));
    HY_ASSIGN(job.source.external_folder, ToString(d.external_folder, "external_folder"));
    const int sources = (job.source.path.empty() ? 0 : 1) + (d.onnx_data == nullptr ? 0 : 1) +
                        (d.graph == nullptr ? 0 : 1);
    if (sources != 1) {
      return InvalidArgument(
          "A program is compiled from one of onnx_path, onnx_data and graph; {} are "
          "given.",
          sources);
    }
    if (d.onnx_data != nullptr) {
      const auto* bytes = static_cast<const uint8_t*>(d.onnx_data);
      job.source.bytes =
          std::make_shared<const std::vector<uint8_t>>(bytes, bytes + d.onnx_size_bytes);
    }
    if (d.graph != nullptr) {
      const ExclusiveUse use(d.graph->is_busy);
      HY_TRY(use.status());
      HY_ASSIGN(job.source.graph_text, d.graph->poison.Run("graph", AfterBadAlloc::kUsable, [&] {
        return d.graph->record.ToText();
      }));
      job.source.graph_constants = d.graph->record.constants();
    }
    HY_ASSIGN(job.devices, ReadDevices(d.devices, d.device_count));
    if (job.devices.empty()) {
      HY_ASSIGN(job.devices, instance->instance->OpenAutomatic(&job.fallbacks, &job.left_out));
    }
    HY_ASSIGN(job.options.symbol_values, ReadSymbols(d.symbols, d.symbol_count));
    HY_ASSIGN(const FallbackPolicy policy,
              ReadPolicy(d.on_unsupported_op, instance->instance->options().on_unsupported_op));
    job.options.allow_fallback = policy != FallbackPolicy::kError;
    job.warns_of_fallbacks = policy == FallbackPolicy::kFallbackWarn;
    HY_TRY(ReadPlacement(d, job));
    job.options.tune = d.disable_tuning == 0;
    job.options.fast_reductions = d.fast_reductions != 0;
    HY_TRY(ReadVendorLibraries(d.vendor_libraries, job.options));
    HY_ASSIGN(job.options.precision, ReadPrecision(d.precision));
    HY_ASSIGN(job.options.io_precision, ReadPrecision(d.io_precision));
    job.use_cache = d.disable_cache == 0;
    if (d.progress != nullptr) {
      job.progress = [progress = d.progress, context = d.progress_context](std::string_view phase,
                                                                           double fraction) {
        progress(context, ToC(phase), fraction);
      };
    }
    if (d.should_stop != nullptr) {
      job.should_stop = [should_stop = d.should_stop, context = d.progress_context] {
        return should_stop(context) != 0;
      };
    }
    HY_ASSIGN(auto program, Compile(instance->instance, std::move(job)));
    return MakeHandle(instance->instance, std::move(program), out_program);
  });
}

hy_result hy_program_load(hy_instance_t* instance, const hy_program_load_desc* desc,
                          hy_program_t** out_program) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(instance);
    HY_REQUIRE(out_program);
    HY_ASSIGN(LoadRequest request, ReadLoad(desc));
    HY_ASSIGN(auto program,
              LoadSaved(instance->instance, std::move(request.program), std::move(request.devices),
                        {{"read file", request.seconds}}));
    return MakeHandle(instance->instance, std::move(program), out_program);
  });
}

hy_result hy_program_check(hy_instance_t* instance, const hy_program_load_desc* desc) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(instance);
    HY_ASSIGN(LoadRequest request, ReadLoad(desc));
    const std::vector<program::Device>& wanted = request.program.devices;
    if (!request.devices.empty()) HY_TRY(CheckDevices(request.program, request.devices));
    for (size_t i = 0; i < wanted.size(); ++i) {
      Ref<hal::Device> device;
      if (!request.devices.empty()) {
        device = request.devices[i];
      } else {
        HY_ASSIGN(device, OpenDeviceOf(*instance->instance, wanted[i]));
      }
      Target needed = wanted[i].target;
      needed.cpu_features = 0;  // what the code really needs is in each image
      for (const program::Executable& executable : request.program.executables) {
        if (executable.device == i)
          needed.cpu_features |= program::NeededFeatures(executable, wanted[i].target);
      }
      HY_TRY(program::CheckTarget(needed, TargetOf(*device)));
    }
    return OkStatus();
  });
}

hy_result hy_program_save(hy_program_t* program, hy_string path) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(program);
    HY_ASSIGN(const std::string name, ToString(path, "path"));
    if (name.empty()) return InvalidArgument("The path of the program file is empty.");
    return program::Save(program->program->program(), name);
  });
}

void hy_program_release(hy_program_t* program) { ReleaseHandle(program); }

hy_result hy_program_io(hy_program_t* program, hy_io_kind kind, hy_tensor_info* infos,
                        size_t* count) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(program);
    if (kind != HY_IO_INPUT && kind != HY_IO_OUTPUT)
      return InvalidArgument("There is no kind {}.", kind);
    const program::Entry& entry = program->program->program().entries.front();
    const auto& tensors = kind == HY_IO_INPUT ? entry.inputs : entry.outputs;
    const auto& shapes = kind == HY_IO_INPUT ? program->input_shapes : program->output_shapes;
    return WriteArray(infos, count, tensors.size(), [&](size_t i, hy_tensor_info* out) -> Status {
      hy_tensor_info info = HY_TENSOR_INFO_INIT;
      info.name = ToC(tensors[i].name);
      info.dtype = static_cast<hy_dtype>(tensors[i].dtype);
      if (tensors[i].dims.size() > HY_MAX_RANK) {
        return Unimplemented("'{}' has {}; this interface passes at most {}.", tensors[i].name,
                             Counted(tensors[i].dims.size(), "dimension"), HY_MAX_RANK);
      }
      info.rank = static_cast<uint32_t>(tensors[i].dims.size());
      for (size_t d = 0; d < tensors[i].dims.size(); ++d) {
        info.dims[d] = tensors[i].dims[d].AsConstant().value_or(-1);
      }
      info.shape = ToC(shapes[i]);
      return WriteStruct(info, HY_STRUCT_TENSOR_INFO, kTensorInfoSize, "hy_tensor_info", out);
    });
  });
}

hy_result hy_program_symbols(hy_program_t* program, hy_symbol_info* infos, size_t* count) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(program);
    const std::vector<program::Symbol>& symbols = program->program->program().symbols;
    return WriteArray(infos, count, symbols.size(), [&](size_t i, hy_symbol_info* out) {
      hy_symbol_info info = HY_SYMBOL_INFO_INIT;
      info.name = ToC(symbols[i].name);
      info.min = symbols[i].min;
      info.max = symbols[i].max;
      info.multiple_of = symbols[i].divisor;
      return WriteStruct(info, HY_STRUCT_SYMBOL_INFO, kSymbolInfoSize, "hy_symbol_info", out);
    });
  });
}

hy_result hy_program_memory(hy_program_t* program, const hy_symbol_value* symbols,
                            size_t symbol_count, hy_memory_info* infos, size_t* count) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(program);
    HY_ASSIGN(const auto values, ReadSymbols(symbols, symbol_count));
    HY_ASSIGN(const auto memory, PredictMemory(*program->program, values));
    return WriteArray(infos, count, memory.size(), [&](size_t i, hy_memory_info* out) {
      hy_memory_info info = HY_MEMORY_INFO_INIT;
      info.device = ToC(program->program->program().devices[i].name);
      info.constant_bytes = memory[i].constant_bytes;
      info.activation_bytes = memory[i].activation_bytes;
      info.io_bytes = memory[i].io_bytes;
      info.staging_bytes = memory[i].staging_bytes;
      return WriteStruct(info, HY_STRUCT_MEMORY_INFO, kMemoryInfoSize, "hy_memory_info", out);
    });
  });
}

hy_result hy_program_report(hy_program_t* program, hy_report_kind kind, hy_report_format format,
                            hy_writer writer, void* context) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(program);
    HY_ASSIGN(const std::string text, MakeReport(*program->program, static_cast<ReportKind>(kind),
                                                 static_cast<ReportFormat>(format)));
    return WriteText(text, writer, context);
  });
}

hy_result hy_program_explain_node(hy_program_t* program, hy_string name, hy_string device,
                                  hy_report_format format, hy_writer writer, void* context) {
  return Guarded([&]() -> Result<hy_result> {
    HY_REQUIRE(program);
    HY_ASSIGN(const std::string node, ToString(name, "name"));
    std::string path;
    if (device.size > 0) {
      HY_ASSIGN(path, ReadDeviceName(device, "device"));
    }
    HY_ASSIGN(const std::string text,
              ExplainNode(*program->program, node, path, static_cast<ReportFormat>(format)));
    return WriteText(text, writer, context);
  });
}
