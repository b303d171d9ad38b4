// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/architecture.h"

#include <algorithm>
#include <string_view>

#include "base/status.h"
#include "hal/known_boards.h"

namespace halyard::drivers::cuda {
namespace {

using hal::Source;

// Of one multiprocessor. Matrix rates are dense operations per clock, a multiply-add being two,
// with sums in f32 (GeForce boards run those at half the rate from 8.6 on); 0: not there, or not
// known.
struct Row {
  int capability;
  const char* family;
  int f32, f64, i32, special, load_store, matrix_units, l1_kilobytes;
  int f16_rate, bf16_rate, tf32_rate, f8_rate, i8_rate, f64_rate;
};
constexpr Row kRows[] = {
    {70, "Volta", 64, 32, 64, 16, 32, 8, 128, 1024, 0, 0, 0, 0, 0},
    {72, "Volta", 64, 32, 64, 16, 32, 8, 128, 1024, 0, 0, 0, 2048, 0},
    {75, "Turing", 64, 2, 64, 16, 16, 8, 96, 1024, 0, 0, 0, 2048, 0},
    {80, "Ampere", 64, 32, 64, 16, 32, 4, 192, 2048, 2048, 1024, 0, 4096, 128},
    {86, "Ampere", 128, 2, 64, 16, 16, 4, 128, 1024, 1024, 512, 0, 2048, 0},
    {89, "Ada", 128, 2, 64, 16, 16, 4, 128, 1024, 1024, 512, 2048, 2048, 0},
    {90, "Hopper", 128, 64, 64, 16, 32, 4, 256, 4096, 4096, 2048, 8192, 8192, 256},
    {100, "Blackwell", 128, 64, 64, 16, 32, 4, 256, 8192, 8192, 4096, 16384, 16384, 0},
    {120, "Blackwell", 128, 2, 128, 16, 16, 4, 128, 1024, 1024, 512, 2048, 2048, 0},
};

// Chips that are the only one of their compute capability: clusters of the whole chip.
struct Chip {
  int capability;
  const char* name;
  int gpcs, tpcs_per_gpc, mig_instances;
  const char* memory;
};
constexpr Chip kChips[] = {
    {70, "GV100", 6, 7, 0, "HBM2"},
    {80, "GA100", 8, 8, 7, "HBM2 or HBM2e"},
    {90, "GH100", 8, 9, 7, "HBM2e, HBM3 or HBM3e"},
};

// Products whose enabled clusters the vendor states, by multiprocessors.
struct Product {
  int capability, units, gpcs;
};
constexpr Product kProducts[] = {{70, 80, 6}, {80, 108, 7}, {90, 132, 8}};

constexpr int64_t kBitsOfStack = 1024;  // of HBM up to its third generation

template <typename T>
void SetUnlessKnown(hal::Field<T>* field, T value) {
  if (!field->known() && value > 0) *field = {value, Source::kTable};
}

void DescribeDtypes(const Row* row, int64_t capability, hal::Capabilities* out) {
  const double units = static_cast<double>(out->compute.unit_count.ValueOr(0));
  const double clock = static_cast<double>(out->compute.max_clock_hz.ValueOr(0));
  struct Dtype {
    const char* name;
    bool storage, arithmetic, atomic;
    int rate;  // of the matrix units
  };
  const bool has_f8 = capability >= 89;
  const Dtype dtypes[] = {
      {"f64", true, true, true, row ? row->f64_rate : 0},
      {"f32", true, true, true, 0},
      {"tf32", true, false, false, row ? row->tf32_rate : 0},
      {"f16", true, true, true, row ? row->f16_rate : 0},
      {"bf16", true, capability >= 80, capability >= 80, row ? row->bf16_rate : 0},
      {"f8e4m3", true, false, false, row ? row->f8_rate : 0},
      {"f8e5m2", true, false, false, row ? row->f8_rate : 0},
      {"i64", true, true, true, 0},
      {"i32", true, true, true, 0},
      {"i16", true, true, false, 0},
      {"i8", true, true, false, row ? row->i8_rate : 0},
  };
  for (const Dtype& dtype : dtypes) {
    if (std::string_view(dtype.name).starts_with("f8") && !has_f8) continue;
    if (std::string_view(dtype.name) == "tf32" && capability < 80) continue;
    hal::DtypeSupport added;
    added.dtype = {dtype.name, Source::kTable};
    added.has_storage = {dtype.storage, Source::kTable};
    added.has_arithmetic = {dtype.arithmetic, Source::kTable};
    added.has_atomic_add = {dtype.atomic, Source::kTable};
    if (row) {
      added.has_matrix = {dtype.rate > 0, Source::kTable};
      if (dtype.rate > 0) added.matrix_ops_per_clock = {double(dtype.rate), Source::kTable};
      if (const double peak = dtype.rate * units * clock; peak > 0) {
        added.peak_matrix_ops_per_s = {peak, Source::kTable};
      }
    }
    out->dtypes.push_back(std::move(added));
  }
}

}  // namespace

void DescribeArchitecture(int64_t capability, hal::Capabilities* out) {
  const Row* row = nullptr;
  for (const Row& candidate : kRows) {
    if (candidate.capability == capability) row = &candidate;
  }
  hal::Compute& compute = out->compute;
  // Since Pascal two multiprocessors make a texture processing cluster.
  SetUnlessKnown(&compute.units_per_tpc, int64_t{2});
  if (compute.unit_count.known()) {
    SetUnlessKnown(&compute.tpc_count, (compute.unit_count.value + 1) / 2);
  }
  SetUnlessKnown(&compute.schedulers_per_unit, int64_t{4});
  SetUnlessKnown(&compute.registers_per_workitem, int64_t{255});
  DescribeDtypes(row, capability, out);
  if (row) {
    out->identity.chip = {row->family, Source::kTable};
    SetUnlessKnown(&compute.f32_lanes_per_unit, int64_t{row->f32});
    SetUnlessKnown(&compute.f64_lanes_per_unit, int64_t{row->f64});
    SetUnlessKnown(&compute.i32_lanes_per_unit, int64_t{row->i32});
    SetUnlessKnown(&compute.special_lanes_per_unit, int64_t{row->special});
    SetUnlessKnown(&compute.load_store_lanes_per_unit, int64_t{row->load_store});
    SetUnlessKnown(&compute.matrix_units_per_unit, int64_t{row->matrix_units});
    const double starts = 2 * static_cast<double>(compute.unit_count.ValueOr(0)) *
                          static_cast<double>(compute.max_clock_hz.ValueOr(0));
    SetUnlessKnown(&compute.peak_f32_flops, starts * row->f32);
    SetUnlessKnown(&compute.peak_f64_flops, starts * row->f64);
    hal::Cache l1;
    l1.level = {1, Source::kTable};
    l1.size_bytes = {int64_t{row->l1_kilobytes} << 10, Source::kTable};
    l1.line_bytes = {128, Source::kTable};
    l1.instance_count = compute.unit_count;
    l1.threads_per_instance = compute.max_workitems_per_unit;
    out->caches.insert(out->caches.begin(), std::move(l1));
  }
  for (const Chip& chip : kChips) {
    if (chip.capability != capability) continue;
    out->identity.chip = {fmt::format("{} ({})", chip.name, row ? row->family : "?"),
                          Source::kTable};
    SetUnlessKnown(&compute.gpc_count_of_chip, int64_t{chip.gpcs});
    SetUnlessKnown(&compute.tpcs_per_gpc_of_chip, int64_t{chip.tpcs_per_gpc});
    SetUnlessKnown(&out->memory.stack_count,
                   (out->memory.bus_bits.ValueOr(0) + kBitsOfStack - 1) / kBitsOfStack);
    SetUnlessKnown(&out->partition.mig_instance_max, int64_t{chip.mig_instances});
    out->memory.kind = {chip.memory, Source::kTable};
  }
  // Beside its capability, where the driver tells the numbers of the board.
  if (const hal::KnownBoard* board = hal::FindKnownBoard(out->identity.model_id.ValueOr(""))) {
    out->identity.chip = {board->chip, Source::kTable};
    out->memory.kind = {board->memory_kind, Source::kTable};
    SetUnlessKnown(&compute.gpc_count_of_chip, board->gpc_count_of_chip);
    SetUnlessKnown(&compute.tpcs_per_gpc_of_chip, board->tpcs_per_gpc_of_chip);
  }
  for (const Product& product : kProducts) {
    if (product.capability != capability || product.units != compute.unit_count.ValueOr(0))
      continue;
    SetUnlessKnown(&compute.gpc_count, int64_t{product.gpcs});
  }
}

}  // namespace halyard::drivers::cuda
