// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/op_cases.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "compiler/kernel/builder.h"
#include "compiler/kernel/lane_math.h"
#include "compiler/kernel/opcode.h"

namespace halyard::testing {
namespace {

using namespace kernel;  // NOLINT: test file

constexpr DType kInts_[] = {DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
                            DType::kI32, DType::kU32, DType::kI64, DType::kU64};
constexpr DType kFloats_[] = {DType::kF32, DType::kF64};
constexpr DType kAll[] = {DType::kBool, DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
                          DType::kI32,  DType::kU32, DType::kI64, DType::kU64, DType::kF16,
                          DType::kBF16, DType::kF32, DType::kF64};
constexpr int kLanes[] = {1, 4, 8, 16};

std::vector<DType> DTypesOf(uint8_t domain) {
  std::vector<DType> out;
  // One by one: g++ 12 at -O3 warns of an overflow in a range insert.
  const auto add = [&out](const auto& dtypes) {
    for (DType dtype : dtypes) out.push_back(dtype);
  };
  if (domain & kInts) add(kInts_);
  if (domain & kFloats) add(kFloats_);
  if (domain & kBools) out.push_back(DType::kBool);
  return out;
}

// Names a case; the first buffers are a, b, c to read, then out to write.
struct Frame {
  Builder b;
  BufferId inputs[3] = {kNone, kNone, kNone};
  BufferId out = kNone;
  Frame(std::string_view name, std::initializer_list<DType> reads, DType writes) : b(name) {
    int i = 0;
    for (DType dtype : reads) {
      inputs[i] = b.Parameter(fmt::format("in{}", i), dtype, Access::kRead);
      ++i;
    }
    out = b.Parameter("out", writes, Access::kReadWrite);
  }
  // for i in 0 .. kCaseElements step lanes
  void Loop(int lanes, const std::function<void(ValueId)>& body) {
    const ValueId lo = b.Index(0);
    const ValueId hi = b.Index(kCaseElements);
    b.For(lo, hi, b.Index(lanes), body);
  }
  OpCase Finish(bool small_indices = false) { return {std::move(b).Finish(), small_indices}; }
};

std::string NameOf(Opcode opcode, DType dtype, int lanes, std::string_view suffix = "") {
  return fmt::format("{}_{}x{}{}", FormatOpcode(opcode), FormatDType(dtype), lanes, suffix);
}

void Arithmetic(Opcode opcode, bool has_fma, std::vector<OpCase>* cases) {
  const OpcodeInfo& info = InfoOf(opcode);
  const bool compare = info.op_class == OpClass::kCompare;
  for (DType dtype : DTypesOf(info.domain)) {
    if (opcode == Opcode::kFma && dtype == DType::kF64 && !has_fma) continue;
    for (int lanes : kLanes) {
      Frame f(NameOf(opcode, dtype, lanes), {dtype, dtype, dtype}, compare ? DType::kBool : dtype);
      f.Loop(lanes, [&](ValueId i) {
        const ValueId x = f.b.Load(f.inputs[0], i, lanes);
        const ValueId y = f.b.Load(f.inputs[1], i, lanes);
        const ValueId z = f.b.Load(f.inputs[2], i, lanes);
        const Type type =
            compare ? Type{DType::kBool, static_cast<uint16_t>(lanes)} : f.b.TypeOf(x);
        const ValueId result = info.min_operands == 1   ? f.b.Append1(opcode, type, {x})
                               : info.min_operands == 2 ? f.b.Append1(opcode, type, {x, y})
                                                        : f.b.Append1(opcode, type, {x, y, z});
        f.b.Store(f.out, i, result);
      });
      cases->push_back(f.Finish());
      if (info.min_operands != 2 || compare || dtype == DType::kBool) continue;
      // A constant operand takes other paths of the translation.
      std::vector<int64_t> constants = {0, 3, -1};
      // What compilers of drivers make of a division depends on the divisor.
      if (opcode == Opcode::kDiv || opcode == Opcode::kRem) {
        for (int64_t divisor : {7, 12, 64, 112, 226, 904, 12544, 50176, 1 << 20, -12}) {
          constants.push_back(divisor);
        }
        // Longer than 16 and 32 bits; digits of quotients by the first two are estimated too large.
        if (BitWidth(dtype) == 64 && !IsFloat(dtype)) {
          for (int64_t divisor : {int64_t{0x8000ffff}, int64_t{0x8000ffffffff}, int64_t{1} << 32,
                                  int64_t{0x123456789abcde}, INT64_MAX - 1, -int64_t{3000000019}}) {
            constants.push_back(divisor);
          }
        }
      }
      for (const int64_t constant : constants) {
        if (!IsFloat(dtype) && !IsSigned(dtype) && constant < 0) continue;
        if (constant != static_cast<int8_t>(constant) && BitWidth(dtype) < 32) continue;
        const std::string suffix =
            constant < -1 ? fmt::format("_cm{}", -constant) : fmt::format("_c{}", constant + 1);
        Frame g(NameOf(opcode, dtype, lanes, suffix), {dtype}, dtype);
        const ValueId c = IsFloat(dtype)
                              ? g.b.ConstFloat(dtype, static_cast<double>(constant), lanes)
                              : g.b.ConstInt(dtype, constant, lanes);
        g.Loop(lanes, [&](ValueId i) {
          const ValueId x = g.b.Load(g.inputs[0], i, lanes);
          const bool first = constant == 0;
          g.b.Store(g.out, i, g.b.Append1(opcode, g.b.TypeOf(x), {first ? c : x, first ? x : c}));
        });
        cases->push_back(g.Finish());
      }
    }
  }
}

// By numbers that are not infinite, past the range of exponents on both sides.
void Scales(std::vector<OpCase>* cases) {
  for (int lanes : {1, 2, 4, 5, 8, 16, 24, 32}) {
    Frame f(NameOf(Opcode::kScale, DType::kF32, lanes), {DType::kF32, DType::kF32}, DType::kF32);
    const ValueId least = f.b.F32(-1000, lanes);
    const ValueId most = f.b.F32(1000, lanes);
    const ValueId hi = f.b.Index(kCaseElements / lanes * lanes);
    f.b.For(f.b.Index(0), hi, f.b.Index(lanes), [&](ValueId i) {
      const ValueId x = f.b.Load(f.inputs[0], i, lanes);
      const ValueId n = f.b.Min(most, f.b.Max(least, f.b.Load(f.inputs[1], i, lanes)));
      f.b.Store(f.out, i, f.b.Append1(Opcode::kScale, f.b.TypeOf(x), {x, n}));
    });
    cases->push_back(f.Finish());
  }
}

void Reduce(Opcode opcode, std::vector<OpCase>* cases) {
  for (DType dtype : DTypesOf(InfoOf(opcode).domain)) {
    for (int lanes : kLanes) {
      Frame f(NameOf(opcode, dtype, lanes), {dtype}, dtype);
      f.Loop(lanes, [&](ValueId i) {
        const ValueId x = f.b.Load(f.inputs[0], i, lanes);
        f.b.Store(f.out, i, f.b.Append1(opcode, {dtype, 1}, {x}));
      });
      cases->push_back(f.Finish());
    }
  }
}

void Sources(Opcode opcode, std::vector<OpCase>* cases) {
  if (opcode == Opcode::kConst) {
    for (DType dtype : kAll) {
      for (int lanes : kLanes) {
        Frame f(NameOf(opcode, dtype, lanes), {}, dtype);
        int64_t at = 0;
        for (double value : {0.0, 1.0, -1.5, 0.1, 65519.0, 1e-7, 3e38, 1e300, -0.0}) {
          const bool is_float = IsFloat(dtype);
          const ValueId c = is_float
                                ? f.b.ConstFloat(dtype, value, lanes)
                                : f.b.ConstInt(dtype,
                                               dtype == DType::kBool
                                                   ? at % 2
                                                   : static_cast<int64_t>(std::fmod(value, 1e18)),
                                               lanes);
          f.b.Store(f.out, f.b.Index(at), c);
          at += lanes;
        }
        cases->push_back(f.Finish());
      }
    }
    return;
  }
  if (opcode == Opcode::kIota) {
    for (DType dtype : kInts_) {
      for (int lanes : kLanes) {
        Frame f(NameOf(opcode, dtype, lanes), {}, dtype);
        f.b.Store(f.out, f.b.Index(0), f.b.Iota(dtype, lanes));
        cases->push_back(f.Finish());
      }
    }
    return;
  }
  Frame f(std::string(FormatOpcode(opcode)), {}, DType::kI64);
  if (opcode == Opcode::kScalar) {
    f.b.Store(f.out, f.b.Index(0), f.b.Scalar("s0"));
    f.b.Store(f.out, f.b.Index(1), f.b.Scalar("s1"));
  } else if (opcode == Opcode::kWorkgroupId) {
    const ValueId xy = f.b.Add(f.b.WorkgroupId(0), f.b.Mul(f.b.WorkgroupId(1), f.b.Index(2)));
    const ValueId at = f.b.Add(xy, f.b.Mul(f.b.WorkgroupId(2), f.b.Index(6)));
    f.b.Store(f.out, at, f.b.Add(f.b.Mul(at, f.b.Index(1000)), f.b.WorkgroupId(2)));
  } else if (opcode == Opcode::kWorkitemId) {
    f.b.Store(f.out, f.b.Index(0), f.b.Append1(opcode, {DType::kI64, 1}, {}, {1}));
  } else {
    f.b.Store(f.out, f.b.Index(0), f.b.Append1(opcode, {DType::kI64, 1}, {}));
  }
  cases->push_back(f.Finish());
}

void LaneOps(Opcode opcode, std::vector<OpCase>* cases) {
  for (DType dtype : kAll) {
    for (int lanes : kLanes) {
      const Type type{dtype, static_cast<uint16_t>(lanes)};
      Frame f(NameOf(opcode, dtype, lanes), {dtype, dtype}, dtype);
      f.Loop(lanes, [&](ValueId i) {
        const ValueId x = f.b.Load(f.inputs[0], i, lanes);
        const ValueId y = f.b.Load(f.inputs[1], i, lanes);
        const ValueId s = f.b.Load(f.inputs[1], i, 1);
        switch (opcode) {
          case Opcode::kSplat:
            f.b.Store(f.out, i, f.b.Append1(opcode, type, {s}));
            return;
          case Opcode::kExtract:
            f.b.Store(f.out, i, f.b.Append1(opcode, {dtype, 1}, {x}, {lanes - 1}));
            return;
          case Opcode::kInsert:
            f.b.Store(f.out, i, f.b.Append1(opcode, type, {x, s}, {lanes / 2}));
            return;
          default: {
            std::vector<int> order;
            for (int lane = 0; lane < lanes; ++lane) order.push_back((lane * 7 + 3) % (2 * lanes));
            f.b.Store(f.out, i, f.b.Shuffle(x, y, order));
          }
        }
      });
      cases->push_back(f.Finish());
      if (opcode != Opcode::kShuffle || lanes == 1) continue;
      Frame g(NameOf(opcode, dtype, lanes, "_narrow"), {dtype, dtype}, dtype);
      g.Loop(lanes, [&](ValueId i) {
        const ValueId x = g.b.Load(g.inputs[0], i, lanes);
        const ValueId y = g.b.Load(g.inputs[1], i, lanes);
        const ValueId one = g.b.Shuffle(x, y, {lanes + 1});
        g.b.Store(g.out, i, g.b.Shuffle(one, one, {0, 1}));
      });
      cases->push_back(g.Finish());
    }
  }
}

void Selects(std::vector<OpCase>* cases) {
  for (DType dtype : kAll) {
    for (int lanes : kLanes) {
      for (const bool one_mask : {false, true}) {
        Frame f(NameOf(Opcode::kSelect, dtype, lanes, one_mask ? "_one" : ""),
                {DType::kBool, dtype, dtype}, dtype);
        f.Loop(lanes, [&](ValueId i) {
          const ValueId mask = f.b.Load(f.inputs[0], i, one_mask ? 1 : lanes);
          const ValueId x = f.b.Load(f.inputs[1], i, lanes);
          const ValueId y = f.b.Load(f.inputs[2], i, lanes);
          f.b.Store(f.out, i, f.b.Select(mask, x, y));
        });
        cases->push_back(f.Finish());
      }
    }
  }
}

void Converts(std::vector<OpCase>* cases) {
  for (DType from : kAll) {
    for (DType to : kAll) {
      for (int lanes : kLanes) {
        Frame f(NameOf(Opcode::kConvert, to, lanes, fmt::format("_from_{}", FormatDType(from))),
                {from}, to);
        f.Loop(lanes, [&](ValueId i) {
          const ValueId x = f.b.Load(f.inputs[0], i, lanes);
          f.b.Store(f.out, i, f.b.Append1(Opcode::kConvert, {to, f.b.TypeOf(x).lanes}, {x}));
        });
        cases->push_back(f.Finish());
      }
    }
  }
}

void Bitcasts(std::vector<OpCase>* cases) {
  for (DType from : kAll) {
    for (DType to : kAll) {
      if (from == DType::kBool || to == DType::kBool) continue;
      for (int lanes : kLanes) {
        const int bits = lanes * BitWidth(from);
        if (bits % BitWidth(to) != 0) continue;
        const int to_lanes = bits / BitWidth(to);
        if (to_lanes > 64) continue;
        Frame f(NameOf(Opcode::kBitcast, to, lanes, fmt::format("_from_{}", FormatDType(from))),
                {from}, to);
        const ValueId x = f.b.Load(f.inputs[0], f.b.Index(64), lanes);
        const Type type{to, static_cast<uint16_t>(to_lanes)};
        f.b.Store(f.out, f.b.Index(3), f.b.Append1(Opcode::kBitcast, type, {x}));
        cases->push_back(f.Finish());
      }
    }
  }
}

void Memory(Opcode opcode, std::vector<OpCase>* cases) {
  const bool uses_lanes = opcode == Opcode::kGather || opcode == Opcode::kScatter;
  for (DType dtype : kAll) {
    if (opcode == Opcode::kAtomicAdd && (!IsInteger(dtype) || BitWidth(dtype) < 32)) continue;
    for (int lanes : kLanes) {
      if (opcode == Opcode::kAtomicAdd && lanes > 1) continue;
      for (const bool masked : {false, true}) {
        const bool can_mask = opcode == Opcode::kLoad || opcode == Opcode::kStore || uses_lanes;
        if (masked && !can_mask) continue;
        for (DType index : {DType::kI64, DType::kI32}) {
          const bool narrow = index == DType::kI32;
          // Inputs: values, indices, mask. Every integer value is a valid index.
          Frame f(NameOf(opcode, dtype, lanes,
                         fmt::format("{}{}", masked ? "_m" : "", narrow ? "_i32" : "")),
                  {dtype, index, DType::kBool}, dtype);
          f.Loop(lanes, [&](ValueId i) {
            const ValueId at = f.b.Convert(i, index);
            const ValueId mask = masked ? f.b.Load(f.inputs[2], at, lanes) : kNone;
            const ValueId indices = f.b.Load(f.inputs[1], at, lanes);
            const ValueId pass =
                masked ? f.b.Splat(f.b.Load(f.inputs[0], f.b.ConstInt(index, 5)), lanes) : kNone;
            switch (opcode) {
              case Opcode::kLoad:
                f.b.Store(f.out, at, f.b.Load(f.inputs[0], at, lanes, mask, pass));
                return;
              case Opcode::kStore:
                f.b.Store(f.out, at, f.b.Load(f.inputs[0], at, lanes), mask);
                return;
              case Opcode::kGather:
                f.b.Store(f.out, at, f.b.Gather(f.inputs[0], indices, mask, pass));
                return;
              case Opcode::kScatter:
                f.b.Scatter(f.out, indices, f.b.Load(f.inputs[0], at, lanes), mask);
                return;
              case Opcode::kBroadcastLoad:
                f.b.Store(f.out, at,
                          f.b.BroadcastLoad(f.inputs[0], f.b.Extract(indices, 0), lanes));
                return;
              case Opcode::kPrefetch:
                f.b.Prefetch(f.inputs[0], at, static_cast<int>(lanes % 4));
                f.b.Store(f.out, at, f.b.Load(f.inputs[0], at, lanes));
                return;
              default:
                f.b.AtomicAdd(f.out, indices, f.b.Load(f.inputs[0], at));
            }
          });
          cases->push_back(f.Finish(true));
        }
      }
    }
  }
}

// Every way a loop can be written: bounds known or not, unrolled or not, trips that divide or not.
void Loops(std::vector<OpCase>* cases) {
  for (DType index : {DType::kI64, DType::kI32}) {
    for (int unroll : {0, 1, 2, 3, 4, 8}) {
      for (int64_t trips : {0, 1, 2, 4, 7, 8}) {
        for (const bool known : {false, true}) {
          Frame f(fmt::format("for_{}_u{}_t{}_{}", FormatDType(index), unroll, trips,
                              known ? "known" : "dynamic"),
                  {DType::kF32}, DType::kF32);
          const ValueId n = f.b.Scalar("s0");  // 1 in every test
          f.b.Scalar("s1");
          const auto bound = [&](int64_t value) {
            return known ? f.b.ConstInt(index, value)
                         : f.b.Convert(f.b.Mul(n, f.b.Index(value)), index);
          };
          const ValueId lo = bound(3);
          const ValueId hi = bound(3 + trips * 5 - (trips > 0 ? 2 : 0));
          const ValueId step = bound(5);
          const std::vector<ValueId> inits = {f.b.F32(1), f.b.F32(2, 8), f.b.Index(100)};
          const auto results = f.b.For(
              lo, hi, step, inits,
              [&](ValueId i, std::span<const ValueId> c) {
                // Swaps and mixes carried values, so that a sequential assignment would show.
                const ValueId x = f.b.Load(f.inputs[0], i);
                const ValueId sum = f.b.Add(c[0], x);
                const ValueId vector = f.b.Add(c[1], f.b.Splat(c[0], 8));
                return std::vector<ValueId>{f.b.Mul(f.b.Extract(c[1], 3), sum), vector,
                                            f.b.Add(c[2], f.b.Convert(i, DType::kI64))};
              },
              unroll);
          f.b.Store(f.out, f.b.Index(0), results[0]);
          f.b.Store(f.out, f.b.Index(8), results[1]);
          f.b.Store(f.out, f.b.Index(1), f.b.Convert(results[2], DType::kF32));
          cases->push_back(f.Finish());
        }
      }
    }
  }
}

void Ifs(std::vector<OpCase>* cases) {
  for (int lanes : kLanes) {
    Frame f(fmt::format("if_x{}", lanes), {DType::kF32, DType::kI32}, DType::kF32);
    f.Loop(lanes, [&](ValueId i) {
      const ValueId x = f.b.Load(f.inputs[0], i, lanes);
      const ValueId s = f.b.Load(f.inputs[1], i);
      const auto picked = f.b.If(
          f.b.Lt(s, f.b.ConstInt(DType::kI32, 0)),
          [&] {
            const auto inner = f.b.If(
                f.b.Eq(f.b.And(s, f.b.ConstInt(DType::kI32, 1)), f.b.ConstInt(DType::kI32, 0)),
                [&] {
                  return std::vector<ValueId>{f.b.Add(x, x), s};
                },
                [&] {
                  return std::vector<ValueId>{x, f.b.Neg(s)};
                });
            return std::vector<ValueId>{inner[0], inner[1]};
          },
          [&] {
            return std::vector<ValueId>{f.b.Neg(x), s};
          });
      f.b.Store(f.out, i, picked[0]);
      f.b.If(f.b.Gt(picked[1], f.b.ConstInt(DType::kI32, 1000)),
             [&] { f.b.Store(f.out, i, f.b.Convert(picked[1], DType::kF32)); });
    });
    cases->push_back(f.Finish());
  }
}

void Reports(std::vector<OpCase>* cases) {
  for (int lanes : kLanes) {
    for (int64_t limit : {INT64_MIN, int64_t{0}, INT64_MAX}) {
      Frame f(fmt::format("report_x{}_{}", lanes,
                          limit == 0  ? "zero"
                          : limit > 0 ? "max"
                                      : "min"),
              {DType::kI64}, DType::kI64);
      f.b.Site("a", "b");
      const int64_t site = f.b.Site("node", "what");
      const ValueId bound = f.b.Index(limit);
      f.Loop(lanes, [&](ValueId i) {
        const ValueId x = f.b.Load(f.inputs[0], i, lanes);
        f.b.Report(f.b.Lt(x, bound), x, bound, KernelErrorReason::kIndexOutOfRange, site);
        f.b.Store(f.out, i, x);
      });
      cases->push_back(f.Finish());
    }
  }
}

}  // namespace

std::vector<OpCase> CasesFor(Opcode opcode, bool has_fma) {
  std::vector<OpCase> cases;
  const OpcodeInfo& info = InfoOf(opcode);
  switch (info.op_class) {
    case OpClass::kArithmetic:
      if (!info.transcendental) Arithmetic(opcode, has_fma, &cases);
      break;
    case OpClass::kCompare:
      Arithmetic(opcode, has_fma, &cases);
      break;
    case OpClass::kCpu:
      Scales(&cases);
      break;
    case OpClass::kReduce:
      Reduce(opcode, &cases);
      break;
    case OpClass::kSource:
      Sources(opcode, &cases);
      break;
    case OpClass::kLanes:
      LaneOps(opcode, &cases);
      break;
    case OpClass::kSelect:
      Selects(&cases);
      break;
    case OpClass::kConvert:
      opcode == Opcode::kConvert ? Converts(&cases) : Bitcasts(&cases);
      break;
    case OpClass::kMemory:
      Memory(opcode, &cases);
      break;
    default:
      break;
  }
  switch (opcode) {
    case Opcode::kFor:
    case Opcode::kYield:
      Loops(&cases);
      break;
    case Opcode::kIf:
      Ifs(&cases);
      break;
    case Opcode::kReport:
      Reports(&cases);
      break;
    default:
      break;
  }
  return cases;
}

void FillRandom(DType dtype, bool small_indices, int64_t count, std::mt19937_64* random,
                void* out) {
  static const double kSpecial[] = {0.0,
                                    -0.0,
                                    1.0,
                                    -1.0,
                                    0.5,
                                    -0.5,
                                    1.5,
                                    2.5,
                                    -2.5,
                                    3.0,
                                    127.5,
                                    255.0,
                                    256.0,
                                    65504.0,
                                    65520.0,
                                    -65519.0,
                                    2147483647.0,
                                    2147483648.0,
                                    -2147483648.0,
                                    -2147483649.0,
                                    4294967296.0,
                                    9223372036854775808.0,
                                    -9223372036854775808.0,
                                    1.8446744073709552e19,
                                    1e-8,
                                    6e-8,
                                    6.1e-5,
                                    5.96e-8,
                                    1e-40,
                                    1e-310,
                                    5e-324,
                                    1.17549435e-38,
                                    3.4028235e38,
                                    -3.4028235e38,
                                    1.7976931348623157e308,
                                    8388608.5,
                                    16777217.0,
                                    std::numeric_limits<double>::infinity(),
                                    -std::numeric_limits<double>::infinity(),
                                    std::numeric_limits<double>::quiet_NaN()};
  const size_t size = static_cast<size_t>(BitWidth(dtype)) / 8;
  uint8_t* at = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < count; ++i, at += size) {
    const uint64_t bits = (*random)();
    uint64_t lane = bits;
    if (dtype == DType::kBool) {
      lane = bits & 1;
    } else if (small_indices && IsInteger(dtype)) {
      lane = bits % static_cast<uint64_t>(kCaseElements);
    } else if (IsFloat(dtype)) {
      if ((*random)() % 2 == 0) {
        lane = ConvertLane(DType::kF64, dtype,
                           std::bit_cast<uint64_t>(kSpecial[bits % std::size(kSpecial)]));
      } else if ((*random)() % 2 == 0) {
        const double value = (static_cast<double>(bits >> 11) * 0x1p-53 - 0.5) * 64;
        lane = ConvertLane(DType::kF64, dtype, std::bit_cast<uint64_t>(value));
      }
    } else if ((*random)() % 2 == 0) {
      const int width = BitWidth(dtype);
      const uint64_t special[] = {0,
                                  1,
                                  ~uint64_t{0},
                                  uint64_t{1} << (width - 1),
                                  (uint64_t{1} << (width - 1)) - 1,
                                  static_cast<uint64_t>(width),
                                  static_cast<uint64_t>(width) - 1,
                                  2,
                                  7,
                                  (uint64_t{1} << (width / 2)) + 1};
      lane = special[bits % std::size(special)];
    } else if ((*random)() % 2 == 0) {
      // Digits at the ends of their range, which division in digits of 16 bits must correct; and
      // numbers of every length.
      static constexpr uint64_t kDigits[] = {0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff};
      for (int digit = 0; digit < 4; ++digit) {
        const uint64_t chosen = kDigits[(bits >> 8 * digit) % std::size(kDigits)];
        lane = (lane & ~(uint64_t{0xffff} << 16 * digit)) | chosen << 16 * digit;
      }
      lane >>= (*random)() % 64;
    }
    std::memcpy(at, &lane, size);
  }
}

bool SameElement(DType dtype, const void* a, const void* b) {
  const size_t size = static_cast<size_t>(BitWidth(dtype)) / 8;
  if (std::memcmp(a, b, size) == 0) return true;
  if (!IsFloat(dtype)) return false;
  uint64_t x = 0;
  uint64_t y = 0;
  std::memcpy(&x, a, size);
  std::memcpy(&y, b, size);
  return std::isnan(LaneToDouble(dtype, x)) && std::isnan(LaneToDouble(dtype, y));
}

}  // namespace halyard::testing
