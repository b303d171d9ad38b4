// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/gpu_cases.h"

#include <functional>
#include <map>

#include "compiler/kernel/builder.h"
#include "compiler/kernel/opcode.h"

namespace halyard::testing {
namespace {

using namespace kernel;  // NOLINT: test file

constexpr DType kAllOnGpus[] = {DType::kBool, DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
                                DType::kI32,  DType::kU32, DType::kI64, DType::kU64, DType::kF16,
                                DType::kBF16, DType::kF32, DType::kF64};
constexpr int64_t kItems = 16;  // workitems where no subgroup matters

using Cases = std::vector<GpuCase>;

// A kernel that reads `in` and writes `out`, with what most cases need at hand.
struct GpuFrame {
  Builder b;
  BufferId in = kNone;
  BufferId out = kNone;
  ValueId item = kNone;  // workitem id of axis 0, i32

  GpuFrame(const std::string& name, DType dtype, int64_t items, int32_t subgroup = 0) : b(name) {
    b.SetWorkgroup(items, 1, 1, subgroup);
    in = b.Parameter("in0", dtype, Access::kRead);
    out = b.Parameter("out", dtype, Access::kReadWrite);
    item = b.WorkitemId(0, DType::kI32);
  }
  ValueId I32(int64_t value) { return b.ConstInt(DType::kI32, value); }
  // item * lanes
  ValueId Own(int lanes) { return b.Mul(item, I32(lanes)); }
  void AddTo(Cases* cases, int64_t workgroups = 1) {
    cases->push_back({{std::move(b).Finish(), false}, {workgroups, 1, 1}});
  }
};

void Ids(const GpuTarget&, Cases* cases) {
  for (DType index : {DType::kI32, DType::kI64}) {
    Builder b(fmt::format("ids_{}", FormatDType(index)));
    b.SetWorkgroup(4, 2, 2);
    const BufferId out = b.Parameter("out", index, Access::kReadWrite);
    ValueId at = b.ConstInt(index, 0);
    ValueId value = at;
    for (int axis = 2; axis >= 0; --axis) {  // a grid of 2 x 3 x 2
      at = b.Add(b.Mul(at, b.ConstInt(index, axis == 1 ? 3 : 2)), b.WorkgroupId(axis, index));
      value = b.Add(b.Mul(value, b.ConstInt(index, 100)), b.WorkgroupId(axis, index));
    }
    for (int axis = 2; axis >= 0; --axis) {
      at = b.Add(b.Mul(at, b.ConstInt(index, axis == 0 ? 4 : 2)), b.WorkitemId(axis, index));
      value = b.Add(b.Mul(value, b.ConstInt(index, 10)), b.WorkitemId(axis, index));
    }
    b.Store(out, at, value);
    cases->push_back({{std::move(b).Finish(), true}, {2, 3, 2}});
  }
}

// Comparisons of a 64-bit integer that is a 32-bit one extended, open or inside another op, with
// constants.
void Widened(const GpuTarget&, Cases* cases) {
  for (const int64_t limit : {-5, 0, 1, 5}) {
    GpuFrame f(fmt::format("widened_{}", limit + 5), DType::kI64, kItems);
    const ValueId wide = f.b.Convert(f.b.Sub(f.item, f.I32(8)), DType::kI64);
    const ValueId constant = f.b.Index(limit);
    const ValueId results[] = {f.b.Min(wide, constant),
                               f.b.Max(constant, wide),
                               f.b.Max(f.b.Min(wide, f.b.Index(5)), constant),
                               f.b.Abs(wide),
                               f.b.Div(constant, wide),
                               f.b.Rem(constant, wide),
                               f.b.Convert(f.b.Convert(wide, DType::kBool), DType::kI64),
                               f.b.Convert(f.b.Lt(wide, constant), DType::kI64),
                               f.b.Convert(f.b.Eq(constant, wide), DType::kI64)};
    for (size_t i = 0; i < std::size(results); ++i) {
      f.b.Store(f.out, f.b.Add(f.Own(std::size(results)), f.I32(static_cast<int64_t>(i))),
                results[i]);
    }
    f.AddTo(cases);
  }
  // In a loop that may be unrolled: then some of its steps compare what is extended and nothing
  // else.
  GpuFrame f("widened_in_loop", DType::kI64, kItems);
  const ValueId own = f.b.Convert(f.b.Sub(f.item, f.I32(3)), DType::kI64);
  const ValueId inits[] = {f.b.Index(0)};
  const auto results = f.b.For(
      f.I32(0), f.I32(10), f.I32(1), inits,
      [&](ValueId i, std::span<const ValueId> c) {
        const ValueId place = f.b.Add(own, f.b.Convert(f.b.Div(i, f.I32(5)), DType::kI64));
        ValueId sum = f.b.Mul(c[0], f.b.Index(2));
        for (const ValueId is_so : {f.b.Ge(place, f.b.Index(0)), f.b.Le(place, f.b.Index(7)),
                                    f.b.Lt(place, f.b.Index(7)), f.b.Gt(f.b.Index(1), place),
                                    f.b.Eq(place, f.b.Index(4)), f.b.Ne(place, f.b.Index(-2))}) {
          sum = f.b.Add(sum, f.b.Convert(is_so, DType::kI64));
        }
        return std::vector<ValueId>{
            f.b.Add(sum, f.b.Max(f.b.Min(place, f.b.Index(6)), f.b.Index(0)))};
      },
      0);
  f.b.Store(f.out, f.item, results[0]);
  f.AddTo(cases);
}

// Places of a picture out of the number of a workitem, as schedules compute them: quotients and
// what is left of them, by constants and by a size.
void Places(const GpuTarget&, Cases* cases) {
  constexpr int64_t kWorkgroups = 300, kPlaces = 256;
  for (DType index : {DType::kI32, DType::kI64}) {
    for (const bool is_constant : {true, false}) {
      for (const int64_t width : {7, 14, 58, 112, 226}) {
        Builder b(fmt::format("places_{}_{}_{}", FormatDType(index), width,
                              is_constant ? "constant" : "scalar"));
        b.SetWorkgroup(kPlaces, 1, 1, 0);
        const BufferId out = b.Parameter("out", index, Access::kReadWrite);
        // A scalar's value is 1 (Mismatches).
        ValueId by = b.ConstInt(index, width);
        if (!is_constant) by = b.Mul(by, b.Convert(b.Scalar("one"), index));
        const ValueId first = b.Mul(b.WorkgroupId(0, index), b.ConstInt(index, kPlaces));
        const ValueId number = b.Add(first, b.WorkitemId(0, index));
        // In vectors of four, as in a copy.
        const ValueId four = b.Mul(number, b.ConstInt(index, 4));
        const ValueId place = b.Shr(four, b.ConstInt(index, 2));
        const ValueId row = b.Div(place, by);
        const ValueId picture = b.Div(row, by);
        const ValueId whole = b.Div(place, b.Mul(by, by));
        ValueId at = b.Mul(number, b.ConstInt(index, 4));
        for (const ValueId value :
             {b.Sub(place, b.Mul(row, by)), b.Sub(row, b.Mul(picture, by)), picture, whole}) {
          b.Store(out, at, value);
          at = b.Add(at, b.ConstInt(index, 1));
        }
        cases->push_back(
            {{std::move(b).Finish(), true}, {kWorkgroups, 1, 1}, kWorkgroups * kPlaces * 4});
      }
    }
  }
}

void Subgroups(const GpuTarget& target, Cases* cases) {
  const int32_t size = target.subgroup_size;
  for (DType index : {DType::kI32, DType::kI64}) {
    GpuFrame f(fmt::format("subgroup_ids_{}", FormatDType(index)), index, 2 * size, size);
    const ValueId hundred = f.b.ConstInt(index, 100);
    const ValueId id = f.b.Add(f.b.Mul(f.b.SubgroupId(index), hundred), f.b.SubgroupLane(index));
    f.b.Store(f.out, f.item, f.b.Add(f.b.Mul(id, hundred), f.b.SubgroupSize(index)));
    f.AddTo(cases);
  }
  for (DType dtype : kAllOnGpus) {
    if (dtype == DType::kI8 || dtype == DType::kU8) continue;  // the IR has no such shuffles
    for (int lanes : {1, 2, 4}) {
      GpuFrame f(fmt::format("subgroup_shuffle_{}x{}", FormatDType(dtype), lanes), dtype, size,
                 size);
      const ValueId lane = f.b.SubgroupLane(DType::kI32);
      const ValueId x = f.b.Load(f.in, f.Own(lanes), lanes);
      // Every lane reads another one, several the same.
      const ValueId from = f.b.Rem(f.b.Add(f.b.Mul(lane, f.I32(3)), f.I32(1)), f.I32(size / 2 + 1));
      f.b.Store(f.out, f.Own(lanes), f.b.SubgroupShuffle(x, from));
      f.AddTo(cases);
      for (int mask = 1; mask < size; mask *= 2) {
        GpuFrame g(fmt::format("subgroup_xor{}_{}x{}", mask, FormatDType(dtype), lanes), dtype,
                   2 * size, size);
        const ValueId y = g.b.Load(g.in, g.b.Rem(g.Own(lanes), g.I32(256)), lanes);
        const ValueId shuffled = g.b.SubgroupShuffleXor(y, mask);
        g.b.If(g.b.Lt(g.Own(lanes), g.I32(256)), [&] { g.b.Store(g.out, g.Own(lanes), shuffled); });
        g.AddTo(cases);
      }
    }
  }
}

// Loads and stores of global memory by vectors, with every alignment, masked and not.
void Align(const GpuTarget&, Cases* cases) {
  for (DType dtype : kAllOnGpus) {
    for (int lanes : {1, 3, 4, 16}) {
      for (int64_t align : {1, 2, 16}) {
        for (int masked : {0, 1, 2}) {  // 1: one mask for all lanes; 2: one for each
          if (masked != 0 && (align != 2 || lanes % 4 != 0)) continue;
          GpuFrame f(fmt::format("align{}_{}x{}_m{}", align, FormatDType(dtype), lanes, masked),
                     dtype, kItems);
          const ValueId at = f.b.Mul(f.item, f.I32(16));
          ValueId mask = kNone;
          if (masked == 1) {
            mask = f.b.Splat(f.b.Lt(f.b.And(f.item, f.I32(3)), f.I32(2)), lanes);
          } else if (masked == 2) {
            const ValueId lane = f.b.Add(f.b.Iota(DType::kI32, lanes), f.b.Splat(f.item, lanes));
            const ValueId low = f.b.And(lane, f.b.ConstInt(DType::kI32, 5, lanes));
            mask = f.b.Lt(low, f.b.ConstInt(DType::kI32, 4, lanes));
          }
          // An index that is aligned and not always a multiple of 16.
          const ValueId from = f.b.Add(at, f.I32(align));
          const ValueId x = f.b.Load(f.in, from, lanes, mask, kNone, align);
          f.b.Store(f.out, from, x, mask, align);
          f.AddTo(cases);
        }
      }
    }
  }
}

void WorkgroupMemory(const GpuTarget&, Cases* cases) {
  for (DType dtype : kAllOnGpus) {
    for (int lanes : {1, 2, 8}) {
      for (const bool aligned : {false, true}) {
        if (aligned && lanes == 1) continue;
        const int64_t align = aligned ? lanes : 1;
        GpuFrame f(fmt::format("workgroup_{}x{}_a{}", FormatDType(dtype), lanes, align), dtype,
                   kItems);
        // The other allocation keeps the tile from starting at 0.
        const BufferId first =
            f.b.Allocate("first", DType::kU8, 3 * kItems, MemorySpace::kWorkgroup);
        const BufferId tile = f.b.Allocate("tile", dtype, kItems * lanes, MemorySpace::kWorkgroup);
        f.b.Store(first, f.item, f.b.ConstInt(DType::kU8, 77));
        f.b.Store(tile, f.Own(lanes), f.b.Load(f.in, f.Own(lanes), lanes), kNone, align);
        f.b.Barrier();
        const ValueId other = f.b.Mul(f.b.Sub(f.I32(kItems - 1), f.item), f.I32(lanes));
        f.b.Store(f.out, f.Own(lanes), f.b.Load(tile, other, lanes, kNone, kNone, align));
        // Element by element, transposed, in a loop with a barrier in every turn.
        f.b.For(f.I32(0), f.I32(3), f.I32(1), [&](ValueId i) {
          f.b.Barrier();
          const ValueId at = f.b.Rem(f.b.Add(f.item, i), f.I32(kItems));
          f.b.Store(tile, f.b.Mul(at, f.I32(lanes)), f.b.Load(f.in, f.b.Add(f.item, i)));
        });
        f.b.Barrier();
        f.b.Store(f.out, f.Own(lanes), f.b.Load(tile, f.Own(lanes)));
        f.AddTo(cases);
      }
    }
  }
  // What one workitem wrote to global memory, others read after a barrier.
  GpuFrame f("global_barrier", DType::kF32, kItems);
  f.b.Store(f.out, f.item, f.b.Load(f.in, f.item));
  f.b.Barrier();
  const ValueId x = f.b.Load(f.out, f.b.Sub(f.I32(kItems - 1), f.item));
  f.b.Barrier();
  f.b.Store(f.out, f.item, f.b.Add(x, f.b.F32(1)));
  f.AddTo(cases, 1);
}

void PrivateMemory(const GpuTarget&, Cases* cases) {
  for (DType dtype : kAllOnGpus) {
    for (int lanes : {1, 4}) {
      GpuFrame f(fmt::format("private_{}x{}", FormatDType(dtype), lanes), dtype, kItems);
      const BufferId own = f.b.Allocate("own", dtype, 12);
      f.b.For(f.I32(0), f.I32(12), f.I32(lanes), [&](ValueId i) {
        f.b.Store(own, i, f.b.Load(f.in, f.b.Add(f.b.Mul(f.item, f.I32(4)), i), lanes));
      });
      const ValueId start = f.b.Rem(f.item, f.I32(9));
      f.b.Store(f.out, f.Own(lanes), f.b.Load(own, start, lanes));
      f.AddTo(cases);
    }
  }
}

void AsyncCopies(const GpuTarget&, Cases* cases) {
  for (DType dtype : kAllOnGpus) {
    for (int bytes : {4, 8, 16}) {
      const int64_t elements = bytes * 8 / BitWidth(dtype);
      if (elements * kItems > kCaseElements || elements == 0) continue;
      for (const bool masked : {false, true}) {
        GpuFrame f(fmt::format("async_copy_{}_{}{}", FormatDType(dtype), bytes, masked ? "_m" : ""),
                   dtype, kItems);
        const BufferId tile =
            f.b.Allocate("tile", dtype, 2 * kItems * elements, MemorySpace::kWorkgroup);
        const auto count = static_cast<int>(elements);
        const ValueId mask = masked ? f.b.Lt(f.item, f.I32(11)) : kNone;
        const ValueId second = f.b.Add(f.Own(count), f.I32(kItems * elements));
        f.b.AsyncCopy(tile, f.Own(count), f.in, f.Own(count), elements);
        f.b.AsyncCommit();
        f.b.AsyncCopy(tile, second, f.in, f.Own(count), elements, mask);
        f.b.AsyncCommit();
        f.b.AsyncWait(1);
        f.b.Barrier();
        const ValueId other = f.b.Mul(f.b.Sub(f.I32(kItems - 1), f.item), f.I32(elements));
        f.b.Store(f.out, f.Own(count), f.b.Load(tile, other, count));
        f.b.AsyncWait(0);
        f.b.Barrier();
        const ValueId other_second = f.b.Add(other, f.I32(kItems * elements));
        f.b.Store(f.out, f.Own(count), f.b.Load(tile, other_second, count));
        f.AddTo(cases);
      }
    }
  }
}

void Atomics(const GpuTarget&, Cases* cases) {
  for (DType dtype : {DType::kI32, DType::kU32, DType::kI64, DType::kU64}) {
    GpuFrame f(fmt::format("atomics_{}", FormatDType(dtype)), dtype, kItems);
    const BufferId sums = f.b.Allocate("sums", dtype, 2, MemorySpace::kWorkgroup);
    const ValueId x = f.b.Load(f.in, f.item);
    f.b.AtomicAdd(f.out, f.b.And(f.item, f.I32(3)), x);  // two workgroups, all workitems
    f.b.If(f.b.Lt(f.item, f.I32(2)), [&] { f.b.Store(sums, f.item, f.b.ConstInt(dtype, 5)); });
    f.b.Barrier();
    f.b.AtomicAdd(sums, f.b.And(f.item, f.I32(1)), x);
    f.b.Barrier();
    const ValueId at = f.b.Add(f.I32(16), f.b.Mul(f.b.WorkgroupId(0, DType::kI32), f.I32(16)));
    f.b.Store(f.out, f.b.Add(at, f.item), f.b.Load(sums, f.b.And(f.item, f.I32(1))));
    f.AddTo(cases, 2);
  }
}

// The workgroups of each of several tiles leave their parts in memory; the one that arrives last
// adds them, each workitem what others wrote.
void Arrivals(const GpuTarget&, Cases* cases) {
  constexpr int64_t kTiles = 24;
  struct Shape {
    int64_t items;
    int parts, lanes;
  };
  for (const Shape& shape : {Shape{16, 3, 1}, {96, 11, 4}, {256, 4, 2}}) {
    const int64_t items = shape.items;
    const int parts = shape.parts, lanes = shape.lanes;
    for (const bool has_memory : {false, true}) {
      const DType count_type = has_memory ? DType::kU32 : DType::kI32;
      Builder b(fmt::format("arrivals_{}x{}x{}{}", items, parts, lanes, has_memory ? "_m" : ""));
      b.SetWorkgroup(items, 1, 1, 0);
      const BufferId in = b.Parameter("in0", DType::kI32, Access::kRead);
      const BufferId out = b.Parameter("out", DType::kI32, Access::kReadWrite);
      const BufferId left = b.Parameter("parts", DType::kI32, Access::kReadWrite);
      const BufferId counters = b.Parameter("counters", count_type, Access::kReadWrite);
      const auto index = [&](int64_t value) { return b.ConstInt(DType::kI32, value); };
      const ValueId item = b.WorkitemId(0, DType::kI32);
      const ValueId workgroup = b.WorkgroupId(0, DType::kI32);
      // Neighbouring workgroups are of different tiles.
      const ValueId tile = b.Rem(workgroup, index(kTiles));
      const ValueId part = b.Div(workgroup, index(kTiles));
      const auto place = [&](ValueId of, ValueId who) {
        const ValueId first = b.Add(b.Mul(of, index(kTiles)), tile);
        return b.Mul(b.Add(b.Mul(first, index(items)), who), index(lanes));
      };
      ValueId value = b.Load(in, place(part, item), lanes);
      if (has_memory) {  // beside an allocation of the kernel's own
        const BufferId own = b.Allocate("own", DType::kI32, items * lanes, MemorySpace::kWorkgroup);
        b.Store(own, b.Mul(item, index(lanes)), value);
        b.Barrier();
        const ValueId other = b.Sub(index(items - 1), item);
        value = b.Load(own, b.Mul(other, index(lanes)), lanes);
      }
      b.Store(left, place(part, item), value);
      b.If(b.LastArrival(counters, tile, index(parts)), [&] {
        ValueId sum = b.ConstInt(DType::kI32, 0, lanes);
        const ValueId other = b.Rem(b.Add(item, index(items / 2 + 1)), index(items));
        for (int p = 0; p < parts; ++p) {
          sum = b.Add(b.Mul(sum, b.ConstInt(DType::kI32, 3, lanes)),
                      b.Load(left, place(index(p), other), lanes));
        }
        b.Store(out, place(index(0), item), sum);
      });
      cases->push_back(
          {{std::move(b).Finish(), false}, {kTiles * parts, 1, 1}, kTiles * parts * items * lanes});
    }
  }
}

// Branches and loops that the workitems of a subgroup take differently.
void Control(const GpuTarget&, Cases* cases) {
  for (int unroll : {0, 4}) {
    GpuFrame f(fmt::format("control_u{}", unroll), DType::kF32, kItems);
    const ValueId trips = f.b.And(f.b.Mul(f.item, f.I32(5)), f.I32(15));
    const std::vector<ValueId> inits = {f.b.F32(0), f.item};
    const auto results = f.b.For(
        f.I32(0), trips, f.I32(1), inits,
        [&](ValueId i, std::span<const ValueId> c) {
          const ValueId x = f.b.Load(f.in, f.b.Add(f.item, i));
          const auto picked = f.b.If(
              f.b.Eq(f.b.And(f.b.Add(i, f.item), f.I32(1)), f.I32(0)),
              [&] {
                return std::vector<ValueId>{f.b.Max(c[0], x), f.b.Add(c[1], f.I32(3))};
              },
              [&] {
                return std::vector<ValueId>{f.b.Sub(c[0], f.b.F32(1)), c[1]};
              });
          return picked;
        },
        unroll);
    f.b.Store(f.out, f.item, results[0]);
    f.b.Store(f.out, f.b.Add(f.item, f.I32(kItems)), f.b.Convert(results[1], DType::kF32));
    f.AddTo(cases);
  }
}

// Reports that no workitem, one or several make, in a branch that not all take.
void Reports(const GpuTarget&, Cases* cases) {
  for (int64_t limit : {0, 7, 300}) {
    GpuFrame f(fmt::format("reports_{}", limit), DType::kI32, kItems);
    f.b.Site("node", "what");
    f.b.If(f.b.Lt(f.item, f.I32(kItems - 3)), [&] {
      const ValueId x = f.b.Convert(f.b.And(f.b.Load(f.in, f.item), f.I32(255)), DType::kI64);
      const ValueId is_low = f.b.Lt(x, f.b.Index(0));
      const ValueId is_high = f.b.Ge(x, f.b.Index(limit));
      const ValueId is_out = f.b.Or(is_low, is_high);
      // All that report give the same value.
      f.b.Report(is_out, f.b.Index(55), f.b.Index(limit), KernelErrorReason::kIndexOutOfRange, 0);
      f.b.Store(f.out, f.item, f.b.Convert(f.b.Select(is_out, f.b.Index(0), x), DType::kI32));
    });
    f.AddTo(cases);
  }
}

// More arguments than push constants hold.
void Arguments(const GpuTarget&, Cases* cases) {
  for (int count : {3, 14, 15, 40}) {
    Builder b(fmt::format("arguments_{}", count));
    b.SetWorkgroup(kItems, 1, 1);
    std::vector<BufferId> inputs;
    for (int i = 0; i < count - 1; ++i) {
      inputs.push_back(b.Parameter(fmt::format("in{}", i), DType::kI32, Access::kRead));
    }
    const BufferId out = b.Parameter("out", DType::kI32, Access::kReadWrite);
    const ValueId scalar = b.Convert(b.Scalar("s0"), DType::kI32);
    const ValueId item = b.WorkitemId(0, DType::kI32);
    ValueId sum = scalar;
    for (BufferId input : inputs) {
      sum = b.Add(b.Mul(sum, b.ConstInt(DType::kI32, 31)), b.Load(input, item));
    }
    b.Store(out, item, sum);
    b.Site("node", "what");
    b.Report(b.Eq(item, b.ConstInt(DType::kI32, kItems - 1)), b.Index(5), b.Index(9),
             KernelErrorReason::kIndexOutOfRange, 0);
    cases->push_back({{std::move(b).Finish(), true}, {1, 1, 1}});
  }
}

// out = a * b + c over two steps of k, from global and from workgroup memory, in both layouts, and
// the elementwise ops of accumulators. Small integers, whose sums are exact in every order.
void Fragments(const GpuTarget& target, Cases* cases) {
  for (const MatrixShape& shape : target.matrix_shapes) {
    const auto rows = static_cast<uint16_t>(shape.m);
    const auto cols = static_cast<uint16_t>(shape.n);
    const auto depth = static_cast<uint16_t>(shape.k);
    const Type a_type{shape.input, 1, FragmentUse::kA, rows, depth};
    const Type b_type{shape.input, 1, FragmentUse::kB, depth, cols};
    const Type c_type{shape.accumulator, 1, FragmentUse::kAccumulator, rows, cols};
    for (FragmentLayout layout : {FragmentLayout::kRowMajor, FragmentLayout::kColumnMajor}) {
      for (const bool shared : {false, true}) {
        const bool is_row = layout == FragmentLayout::kRowMajor;
        Builder b(fmt::format("fragments_{}_{}_{}x{}x{}_{}_{}", FormatDType(shape.input),
                              FormatDType(shape.accumulator), shape.m, shape.n, shape.k,
                              is_row ? "rows" : "columns", shared ? "workgroup" : "global"));
        b.SetWorkgroup(target.subgroup_size, 1, 1, target.subgroup_size);
        const BufferId x = b.Parameter("in0", DType::kU8, Access::kRead);
        const BufferId out = b.Parameter("out", shape.accumulator, Access::kReadWrite);
        const BufferId work = b.Parameter("work", shape.input, Access::kReadWrite);
        const int64_t elements = std::max(shape.m, shape.n) * shape.k;
        const BufferId tile =
            b.Allocate("tile", shape.input, 2 * elements, MemorySpace::kWorkgroup);
        const ValueId item = b.WorkitemId(0, DType::kI32);
        const auto i32 = [&](int64_t value) { return b.ConstInt(DType::kI32, value); };
        const BufferId operand = shared ? tile : work;
        // Inputs of 0 to 7 in any dtype.
        b.For(item, i32(2 * elements), i32(target.subgroup_size), [&](ValueId i) {
          const ValueId from = b.Rem(b.Mul(i, i32(7)), i32(kCaseElements));
          const ValueId small = b.And(b.Load(x, from), b.ConstInt(DType::kU8, 7));
          const DType middle = IsFloat(shape.input) ? DType::kF32 : shape.input;
          b.Store(operand, i, b.Convert(b.Convert(small, middle), shape.input));
        });
        b.Barrier();
        const bool is_float = IsFloat(shape.accumulator);
        const ValueId two =
            is_float ? b.Convert(b.F32(2), shape.accumulator) : b.ConstInt(shape.accumulator, 2);
        const ValueId twos = b.FragmentFill(two, c_type);
        const int64_t align = 16 * 8 / BitWidth(shape.input);
        const auto sums =
            b.For(i32(0), i32(2), i32(1), std::vector<ValueId>{twos},
                  [&](ValueId, std::span<const ValueId> carried) {
                    const ValueId a = b.FragmentLoad(
                        operand, i32(0), i32(is_row ? shape.k : shape.m), a_type, layout, align);
                    const ValueId right = b.FragmentLoad(
                        operand, i32(elements), i32(is_row ? shape.n : shape.k), b_type, layout,
                        is_row && shape.n % align != 0 ? shape.n : align);
                    return std::vector<ValueId>{b.FragmentMma(a, right, carried[0])};
                  });
        ValueId result = sums[0];
        if (shape.accumulator != DType::kF16) result = b.Add(b.Mul(result, twos), twos);
        bool has_half = false;  // accumulators of this size
        for (const MatrixShape& other : target.matrix_shapes) {
          has_half |= other.accumulator == DType::kF16 && other.m == shape.m && other.n == shape.n;
        }
        if (shape.accumulator == DType::kF32 && shared && has_half) {
          const Type half{DType::kF16, 1, c_type.use, rows, cols};
          const ValueId narrow = b.Append1(Opcode::kConvert, half, {result});
          result = b.Append1(Opcode::kConvert, c_type, {narrow});
        }
        b.FragmentStore(out, i32(0), result, i32(is_row ? shape.n : shape.m), layout);
        cases->push_back({{std::move(b).Finish(), false}, {1, 1, 1}, 2 * elements});
      }
    }
  }
}

// Products of one quad or two over tiles that hold small integers wherever they are, in groups of
// which some are still pending when others start; the second quad has other rows of A.
void Products(const GpuTarget& target, Cases* cases) {
  if (target.compute_capability != 90) return;
  constexpr int64_t kDepth = 64;
  const int shapes[] = {8, 64, 256};
  for (const int cols : shapes) {
    for (int layout = 0; layout < 4; ++layout) {
      const bool is_side_a = (layout & 1) != 0, is_side_b = (layout & 2) != 0;
      if (is_side_b && cols % 64 != 0) continue;
      const DType dtype = layout == 0 || layout == 3 ? DType::kBF16 : DType::kF16;
      const int64_t quads = layout == 0 ? 2 : 1, rows = quads * kRowsOfQuad;
      Builder b(fmt::format("products_{}_{}_{}", FormatDType(dtype), cols, layout));
      b.SetWorkgroup(128 * quads, 1, 1, 32);
      const BufferId x = b.Parameter("in0", DType::kU8, Access::kRead);
      const BufferId out = b.Parameter("out", DType::kF32, Access::kReadWrite);
      const BufferId left = b.Allocate("left", dtype, rows * kDepth, MemorySpace::kWorkgroup);
      const BufferId right = b.Allocate("right", dtype, cols * kDepth, MemorySpace::kWorkgroup);
      const auto i32 = [&](int64_t value) { return b.ConstInt(DType::kI32, value); };
      for (const auto& [tile, elements] :
           {std::pair(left, rows * kDepth), {right, cols * kDepth}}) {
        const BufferId to = tile;
        b.For(b.WorkitemId(0, DType::kI32), i32(elements), i32(128 * quads), [&](ValueId i) {
          const ValueId varied = b.Add(b.Mul(i, i32(7)), b.Mul(b.Div(i, i32(256)), i32(31)));
          const ValueId small =
              b.And(b.Load(x, b.Rem(varied, i32(kCaseElements))), b.ConstInt(DType::kU8, 7));
          b.Store(to, i, b.Convert(b.Convert(small, DType::kF32), dtype));
        });
      }
      b.AsyncFence();
      b.Barrier();
      const Type type{DType::kF32, 1, FragmentUse::kAccumulator, 16, static_cast<uint16_t>(cols)};
      const ValueId quad = b.Div(b.SubgroupId(DType::kI32), i32(kSubgroupsOfQuad));
      const ValueId first = b.Mul(quad, i32(kRowsOfQuad * kDepth));
      const auto sums = b.For(
          i32(0), i32(kDepth / kDepthOfProduct), i32(1),
          std::vector<ValueId>{b.MmaBegin(b.FragmentFill(b.F32(2), type))},
          [&](ValueId step, std::span<const ValueId> carried) {
            const auto operand = [&](BufferId buffer, bool is_side, ValueId base) {
              const int64_t apart = kDepthOfProduct * (is_side ? 64 : 1);
              Builder::TileOperand tile{buffer, b.Add(base, b.Mul(step, i32(apart)))};
              if (is_side) tile.layout = TileLayout::kSideMajor, tile.stride = 64 * kDepth;
              return tile;
            };
            const ValueId next = b.MmaAsync(b.MmaBegin(carried[0]), operand(left, is_side_a, first),
                                            operand(right, is_side_b, i32(0)));
            b.MmaCommit();
            b.MmaWait(1);
            return std::vector<ValueId>{next};
          });
      b.MmaWait(0);
      const ValueId result = b.MmaEnd(sums[0]);
      const ValueId row = b.Mul(b.SubgroupId(DType::kI32), i32(16));
      b.FragmentStore(out, b.Mul(row, i32(cols)), result, i32(cols));
      cases->push_back({{std::move(b).Finish(), false},
                        {1, 1, 1},
                        std::max<int64_t>(rows * cols, kCaseElements + kCaseSlack)});
    }
  }
}

using Family = void (*)(const GpuTarget&, Cases*);

const std::map<std::string, Family>& Families() {
  static const std::map<std::string, Family> families = {
      {"ids", Ids},
      {"widened", Widened},
      {"places", Places},
      {"subgroups", Subgroups},
      {"align", Align},
      {"workgroup_memory", WorkgroupMemory},
      {"private_memory", PrivateMemory},
      {"async_copies", AsyncCopies},
      {"atomics", Atomics},
      {"arrivals", Arrivals},
      {"control", Control},
      {"reports", Reports},
      {"arguments", Arguments},
      {"fragments", Fragments},
      {"products", Products},
  };
  return families;
}

}  // namespace

std::vector<std::string> GpuCaseFamilies() {
  std::vector<std::string> names;
  for (const auto& [name, family] : Families()) names.push_back(name);
  return names;
}

std::vector<GpuCase> GpuCasesFor(const std::string& family, const GpuTarget& target) {
  Cases cases;
  Families().at(family)(target, &cases);
  return cases;
}

}  // namespace halyard::testing
