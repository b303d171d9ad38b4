// SPDX-License-Identifier: Apache-2.0
// f32 exp, log, tanh and erf work in f32 on polynomials fitted by us (interpolation at Chebyshev
// nodes in 60 digits, weighted by nothing: the error is far below f32's). All other f32 functions
// take the f64 form, which makes them nearly correctly rounded; they are rare in models. The f64
// forms use Taylor series on reduced arguments, and the reductions of Cody and Waite ("Software
// Manual for the Elementary Functions", 1980), with constants split so that their products are
// exact without FMA. The formula for log is that of Tang's and FreeBSD's log: log(1+f) = f - (f^2/2
// - s (f^2/2 + R(s^2))), s = f / (2 + f).
#include "compiler/kernel/expand_math.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "compiler/kernel/opcode.h"
#include "compiler/kernel/rewrite.h"

namespace halyard::kernel {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLog2E = 1.4426950408889634074;
constexpr double kLn2 = 0.69314718055994530942;

// The vocabulary of formulas: arithmetic on values of one float dtype and number of lanes.
class Formula {
 public:
  using V = ValueId;
  Formula(Builder* b, Type type, const ExpandMathOptions& options)
      : b(*b),
        type(type),
        has_fma(options.has_fma),
        has_scale(options.has_scale),
        has_exp2(options.has_exp2) {}

  V C(double value) { return b.ConstFloat(type.dtype, value, type.lanes); }
  Type IntType() const {
    return {type.dtype == DType::kF64 ? DType::kI64 : DType::kI32, type.lanes};
  }
  V I(int64_t value) { return b.ConstInt(IntType().dtype, value, type.lanes); }
  V Bits(V x) { return b.Bitcast(x, IntType()); }
  V FromBits(V x) { return b.Bitcast(x, type); }
  V MulAdd(V x, V y, V z) { return has_fma ? b.Fma(x, y, z) : b.Add(b.Mul(x, y), z); }
  V Copysign(V x, V sign) { return b.Append1(Opcode::kCopySign, type, {x, sign}); }
  V Round(V x) { return b.Append1(Opcode::kRoundEven, type, {x}); }

  // c[0] + c[1] x + c[2] x^2 + ...
  V Horner(V x, std::initializer_list<double> c) { return Horner(x, c.begin(), c.size()); }
  V Horner(V x, const double* c, size_t n) {
    V sum = C(c[n - 1]);
    for (size_t i = n - 1; i-- > 0;) sum = MulAdd(sum, x, C(c[i]));
    return sum;
  }

  Builder& b;
  const Type type;
  const bool has_fma;
  const bool has_scale;
  const bool has_exp2;
  bool is_widened = false;  // f64 whose arguments were f32
};

using V = ValueId;

// x * 2^n for an integer-valued f64 n with |n| < 2^11, in two steps so that the result may be
// subnormal or infinite and is rounded once.
V ScaleByPowerOfTwo(Formula& f, V x, V n) {
  constexpr int kMantissa = 52;
  constexpr int64_t kBias = 1023;
  // Adding 1.5 * 2^52 leaves the integer in the low bits.
  const double magic = std::ldexp(1.5, kMantissa);
  const V shifted = f.Bits(f.b.Add(n, f.C(magic)));
  const V k = f.b.Sub(shifted, f.Bits(f.C(magic)));
  const V half = f.b.Shr(k, f.I(1));
  const V rest = f.b.Sub(k, half);
  const auto power = [&](V e) {
    return f.FromBits(f.b.Shl(f.b.Add(e, f.I(kBias)), f.I(kMantissa)));
  };
  return f.b.Mul(f.b.Mul(x, power(half)), power(rest));
}

// ---- f32 forms ----

// e^r on |r| <= ln(2)/2.
V ExpKernelF32(Formula& f, V r) {
  return f.Horner(r, {1, 1, 0.5, 0.1666657338, 0.04166655011, 0.008363773874, 0.001392692661});
}

// x * 2^n, rounded once also where it is subnormal or infinite. `shifted` = n + 1.5 * 2^23 holds n
// in its low bits, |n| < 2^8: half of n first, then the rest. Shifting left drops all but those
// bits.
V ScaleF32(Formula& f, V x, V n, V shifted) {
  if (f.has_scale) return f.b.Append1(Opcode::kScale, f.type, {x, n});
  const V bits = f.Bits(shifted);
  const V half = f.b.Shr(bits, f.I(1));
  const V rest = f.b.Sub(bits, half);
  const V one = f.Bits(f.C(1));
  const auto power = [&](V e) { return f.FromBits(f.b.Add(f.b.Shl(e, f.I(23)), one)); };
  return f.b.Mul(f.b.Mul(x, power(half)), power(rest));
}

constexpr double kShift = 0x1.8p23;

// Zero where the result is below half of the least subnormal: the formula would round it there,
// which takes processors a hundred times as long, and the masks of attention put many elements
// there.
V ExpF32(Formula& f, V x) {
  if (f.has_exp2) return f.b.Append1(Opcode::kExp2, f.type, {f.b.Mul(x, f.C(kLog2E))});
  const V tiny = f.b.Lt(x, f.C(-104));
  if (!f.has_scale) x = f.b.Select(tiny, f.C(0), x);
  x = f.b.Min(f.C(89), x);
  const V shifted = f.MulAdd(x, f.C(kLog2E), f.C(kShift));
  const V n = f.b.Sub(shifted, f.C(kShift));
  // ln 2 in two parts, the first of 15 bits: n times it is exact.
  V r = f.MulAdd(n, f.C(-0.693145751953125), x);
  r = f.MulAdd(n, f.C(-(kLn2 - 0.693145751953125)), r);
  return f.b.Select(tiny, f.C(0), ScaleF32(f, ExpKernelF32(f, r), n, shifted));
}

V Exp2F32(Formula& f, V x) {
  const V tiny = f.b.Lt(x, f.C(-151));
  if (!f.has_scale) x = f.b.Select(tiny, f.C(0), x);
  x = f.b.Min(f.C(129), x);
  const V shifted = f.b.Add(x, f.C(kShift));
  const V n = f.b.Sub(shifted, f.C(kShift));
  const V r = f.b.Mul(f.b.Sub(x, n), f.C(kLn2));
  return f.b.Select(tiny, f.C(0), ScaleF32(f, ExpKernelF32(f, r), n, shifted));
}

struct LogParts {
  V exponent;  // float
  V fraction;  // m - 1, m in [sqrt(1/2), sqrt(2))
};

// Positive x, subnormal ones too.
LogParts SplitForLog(Formula& f, V x) {
  const bool wide = f.type.dtype == DType::kF64;
  const int mantissa = wide ? 52 : 23;
  const int lift = mantissa + 1;
  const V small = f.b.Lt(x, f.C(wide ? 0x1p-1022 : 0x1p-126));
  const V normal = f.b.Select(small, f.b.Mul(x, f.C(std::ldexp(1.0, lift))), x);
  const V bits = f.Bits(normal);
  const V root = f.Bits(f.C(0.70710678118654752440));
  const V e = f.b.Shr(f.b.Sub(bits, root), f.I(mantissa));
  const V m = f.FromBits(f.b.Sub(bits, f.b.Shl(e, f.I(mantissa))));
  V exponent = kNone;
  if (wide) {
    // No 64-bit conversion below AVX-512: the magic number again, the other way.
    const V magic = f.C(std::ldexp(1.5, 52));
    exponent = f.b.Sub(f.FromBits(f.b.Add(e, f.Bits(magic))), magic);
  } else {
    exponent = f.b.Convert(e, DType::kF32);
  }
  exponent = f.b.Sub(exponent, f.b.Select(small, f.C(lift), f.C(0)));
  return {exponent, f.b.Sub(m, f.C(1))};
}

// What every logarithm returns where its formula does not hold.
V LogSpecial(Formula& f, V x, V value) {
  value = f.b.Select(f.b.Eq(x, f.C(kInf)), f.C(kInf), value);
  value = f.b.Select(f.b.Eq(x, f.C(0)), f.C(-kInf), value);
  // Negative or NaN.
  return f.b.Select(f.b.Ge(x, f.C(0)), value, f.C(kNan));
}

// log(1+x) - x for x in [sqrt(1/2) - 1, sqrt(2) - 1].
V Log1pTailF32(Formula& f, V x) {
  const V p = f.Horner(x, {0.3333333118, -0.2499999696, 0.2000071575, -0.1666780232, 0.1424905765,
                           -0.1242568733, 0.1168541992, -0.1147973385, 0.06971611471});
  const V square = f.b.Mul(x, x);
  return f.MulAdd(f.b.Mul(square, x), p, f.b.Mul(square, f.C(-0.5)));
}

V LogF32(Formula& f, V x) {
  const LogParts parts = SplitForLog(f, x);
  const V tail =
      f.MulAdd(parts.exponent, f.C(kLn2 - 0.693145751953125), Log1pTailF32(f, parts.fraction));
  const V high = f.b.Mul(parts.exponent, f.C(0.693145751953125));
  return LogSpecial(f, x, f.b.Add(high, f.b.Add(parts.fraction, tail)));
}

V Log2F32(Formula& f, V x) {
  const LogParts parts = SplitForLog(f, x);
  // The fraction in two parts of 12 bits, so that its product with the head of log2(e) is exact.
  const V head = f.FromBits(f.b.And(f.Bits(parts.fraction), f.I(-4096)));
  const V rest = f.b.Add(f.b.Sub(parts.fraction, head), Log1pTailF32(f, parts.fraction));
  const double log2e_head = 1.44140625;  // 11 bits
  const V low = f.MulAdd(rest, f.C(kLog2E), f.b.Mul(head, f.C(kLog2E - log2e_head)));
  const V high = f.b.Mul(head, f.C(log2e_head));
  return LogSpecial(f, x, f.b.Add(parts.exponent, f.b.Add(high, low)));
}

V TanhF32(Formula& f, V x) {
  const V a = f.b.Abs(x);
  const V z = f.b.Mul(x, x);
  const V p = f.Horner(z, {-0.3333333312, 0.1333329635, -0.05395759513, 0.02175570035,
                           -0.008301695361, 0.002246003686});
  const V small = f.MulAdd(f.b.Mul(z, a), p, a);
  const V e = ExpF32(f, f.b.Add(a, a));
  const V large = f.b.Sub(f.C(1), f.b.Div(f.C(2), f.b.Add(e, f.C(1))));
  return f.Copysign(f.b.Select(f.b.Lt(a, f.C(0.625)), small, large), x);
}

V ErfF32(Formula& f, V x) {
  const V a = f.b.Abs(x);
  const V z = f.b.Mul(a, a);
  const V p = f.Horner(z, {0.1283791671, -0.3761263847, 0.112837825, -0.02686543073, 0.005221031808,
                           -0.0008484080406, 0.0001126595903, -9.667044571e-6});
  const V small = f.MulAdd(a, p, a);
  // -log(erfc(x)) on [1, 4]; beyond, erf rounds to 1.
  const V t = f.b.Min(f.C(4), a);
  const V h =
      f.Horner(t, {-0.0003214710264, 1.130239201, 0.6318156996, 0.1100901975, -0.02642704377,
                   0.004761717236, -0.0005972644331, 4.611291391e-5, -1.639938016e-6});
  const V large = f.b.Sub(f.C(1), ExpF32(f, f.b.Neg(h)));
  return f.Copysign(f.b.Select(f.b.Lt(a, f.C(1)), small, large), x);
}

// ---- f64 forms ----

// e^r on |r| <= ln(2)/2, minus 1.
V Expm1KernelF64(Formula& f, V r, int terms) {
  std::vector<double> c;
  double factorial = 2;
  for (int i = 2; i <= terms; ++i) {
    c.push_back(1 / factorial);
    factorial *= i + 1;
  }
  return f.MulAdd(f.b.Mul(r, r), f.Horner(r, c.data(), c.size()), r);
}

constexpr double kLn2High = 0x1.62e42feep-1;  // 32 bits: n times it is exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

V ExpF64(Formula& f, V x) {
  x = f.b.Min(f.C(711), f.b.Max(f.C(-747), x));
  const V n = f.Round(f.b.Mul(x, f.C(kLog2E)));
  V r = f.b.Sub(x, f.b.Mul(n, f.C(kLn2High)));
  r = f.b.Sub(r, f.b.Mul(n, f.C(kLn2Low)));
  return ScaleByPowerOfTwo(f, f.b.Add(f.C(1), Expm1KernelF64(f, r, 13)), n);
}

V Exp2F64(Formula& f, V x) {
  x = f.b.Min(f.C(1025), f.b.Max(f.C(-1076), x));
  const V n = f.Round(x);
  const V r = f.b.Mul(f.b.Sub(x, n), f.C(kLn2));
  return ScaleByPowerOfTwo(f, f.b.Add(f.C(1), Expm1KernelF64(f, r, 13)), n);
}

// f - log(1+f), see the head of this file.
V LogDeficitF64(Formula& f, V x) {
  const V s = f.b.Div(x, f.b.Add(f.C(2), x));
  const V z = f.b.Mul(s, s);
  double c[10];
  for (int i = 0; i < 10; ++i) c[i] = 2.0 / (2 * i + 3);
  const V r = f.b.Mul(z, f.Horner(z, c, 10));
  const V half_square = f.b.Mul(f.C(0.5), f.b.Mul(x, x));
  return f.b.Sub(half_square, f.b.Mul(s, f.b.Add(half_square, r)));
}

V LogF64(Formula& f, V x) {
  const LogParts parts = SplitForLog(f, x);
  const V low = f.b.Sub(LogDeficitF64(f, parts.fraction), f.b.Mul(parts.exponent, f.C(kLn2Low)));
  const V high = f.b.Mul(parts.exponent, f.C(kLn2High));
  return LogSpecial(f, x, f.b.Sub(high, f.b.Sub(low, parts.fraction)));
}

V Log2F64(Formula& f, V x) {
  const LogParts parts = SplitForLog(f, x);
  const V head = f.FromBits(f.b.And(f.Bits(parts.fraction), f.I(-(int64_t{1} << 32))));
  const V rest = f.b.Sub(f.b.Sub(parts.fraction, head), LogDeficitF64(f, parts.fraction));
  const double log2e_head = 0x1.715476p0;  // 23 bits
  const double log2e_rest = 0x1.4ae0bf85ddf44p-26;
  const V low = f.b.Add(f.b.Mul(rest, f.C(kLog2E)), f.b.Mul(head, f.C(log2e_rest)));
  const V high = f.b.Mul(head, f.C(log2e_head));
  return LogSpecial(f, x, f.b.Add(parts.exponent, f.b.Add(high, low)));
}

// log(1+x) for x >= 0 or x > -1; the rounding of 1+x is put back to first order.
V Log1pF64(Formula& f, V x) {
  const V u = f.b.Add(f.C(1), x);
  const V lost = f.b.Sub(x, f.b.Sub(u, f.C(1)));
  const V value = f.b.Add(LogF64(f, u), f.b.Div(lost, u));
  const V usable = f.b.And(f.b.Lt(u, f.C(kInf)), f.b.Gt(u, f.C(0)));
  // Below 2^-53, u is 1 and `lost` is all of x; the sign of a zero is kept by returning x.
  return f.b.Select(f.b.Eq(u, f.C(1)), x, f.b.Select(usable, value, LogF64(f, u)));
}

struct Reduced {
  V r, low;         // x - n pi/2, in two parts
  V odd, negative;  // bits 0 and 1 of n, as masks
};

// n = round(x * 2/pi), r + low = x - n pi/2: exact to the last place of r for |n| < 2^20.
struct Remainder {
  V n, r, low;
};

Remainder SubtractHalfPis(Formula& f, V x) {
  const V n = f.Round(f.b.Mul(x, f.C(0.63661977236758134308)));
  // pi/2 in parts of 33 bits: exact products for |n| < 2^20.
  const V a = f.b.Sub(x, f.b.Mul(n, f.C(0x1.921fb544p0)));
  const V w = f.b.Mul(n, f.C(0x1.0b4611a6p-34));
  const V r = f.b.Sub(a, w);
  const V lost = f.b.Sub(f.b.Sub(a, r), w);
  const V tail = f.b.Sub(lost, f.b.Mul(n, f.C(0x1.3198a2e037073p-69)));
  const V sum = f.b.Add(r, tail);
  return {n, sum, f.b.Add(f.b.Sub(r, sum), tail)};
}

constexpr double kMostExact = 1647099.0;  // 2^20 * pi/2

// Any x of 24 bits, as f32 has, in the manner of Payne and Hanek (1983): the product with each part
// of 28 bits of 2/pi is exact, and so is its remainder by 4, which is all that counts. What is left
// out is below 2^-68 for the largest x; a remainder is above 2^-34.
Remainder SubtractHalfPisOfF32(Formula& f, V x) {
  constexpr uint32_t kTwoOverPi[] = {0xa2f9836, 0xe4e4415, 0x29fc275, 0x7d1f534,
                                     0xddc0db6, 0x295993c, 0x439041f};
  V sum = f.C(0), low = f.C(0);
  int exponent = 0;
  for (const uint32_t part : kTwoOverPi) {
    const V product = f.b.Mul(x, f.C(std::ldexp(part, exponent -= 28)));
    const V quarter = f.b.Append1(Opcode::kFloor, f.type, {f.b.Mul(product, f.C(0.25))});
    const V term = f.b.Sub(product, f.b.Mul(quarter, f.C(4)));
    // What rounding takes from the sum is exact (Knuth's two-sum).
    const V next = f.b.Add(sum, term);
    const V taken = f.b.Sub(next, sum);
    const V lost = f.b.Add(f.b.Sub(sum, f.b.Sub(next, taken)), f.b.Sub(term, taken));
    low = f.b.Add(low, lost);
    sum = next;
  }
  const V n = f.Round(sum);
  const V turns = f.b.Add(f.b.Sub(sum, n), low);
  return {n, f.b.Mul(turns, f.C(1.5707963267948966)), f.C(0)};
}

Reduced QuadrantOf(Formula& f, const Remainder& remainder) {
  // Only the two low bits of n count: n mod 4 is taken in floating point, exact for any size.
  const V quarter = f.b.Mul(remainder.n, f.C(0.25));
  const V mod4 =
      f.b.Sub(remainder.n, f.b.Mul(f.C(4), f.b.Append1(Opcode::kFloor, f.type, {quarter})));
  const V odd = f.b.Or(f.b.Eq(mod4, f.C(1)), f.b.Eq(mod4, f.C(3)));
  return {remainder.r, remainder.low, odd, f.b.Ge(mod4, f.C(2))};
}

Reduced ReduceByHalfPi(Formula& f, V x) {
  const Remainder near = SubtractHalfPis(f, x);
  const V is_far = f.b.Gt(f.b.Abs(x), f.C(kMostExact));
  if (f.is_widened) {
    const std::vector<V> either = f.b.If(
        f.b.Reduce(Opcode::kReduceOr, is_far),
        [&] {
          const Remainder far = SubtractHalfPisOfF32(f, x);
          return std::vector<V>{f.b.Select(is_far, far.n, near.n),
                                f.b.Select(is_far, far.r, near.r),
                                f.b.Select(is_far, far.low, near.low)};
        },
        [&] {
          return std::vector<V>{near.n, near.r, near.low};
        });
    return QuadrantOf(f, {either[0], either[1], either[2]});
  }
  // A huge argument was only brought near the range; once more, so that results stay bounded. Its
  // low part is no correction any more.
  Remainder again = SubtractHalfPis(f, near.r);
  again.low = f.b.Select(is_far, f.C(0), f.b.Add(again.low, near.low));
  // Beyond every bound of accuracy the residue may be as large as x's rounding; then it counts as
  // 0.
  const V bounded = f.b.Le(f.b.Abs(again.r), f.C(0.8));
  const V is_finite = f.b.Lt(f.b.Abs(x), f.C(kInf));
  again.r = f.b.Select(f.b.Or(bounded, f.b.Not(is_finite)), again.r, f.C(0));
  again.n = f.b.Add(again.n, near.n);
  return QuadrantOf(f, again);
}

struct SinCos {
  V sin, cos;
};

SinCos SinCosKernel(Formula& f, V r, V low) {
  const V z = f.b.Mul(r, r);
  double s[8];
  double c[8];
  double factorial = 1;  // of 2i + 1
  for (int i = 1; i <= 8; ++i) {
    const double sign = i % 2 ? -1 : 1;
    c[i - 1] = sign / (factorial * (2 * i));
    factorial *= 2.0 * i * (2 * i + 1);
    s[i - 1] = sign / factorial;
  }
  const V sin = f.b.Add(r, f.b.Add(f.b.Mul(f.b.Mul(z, r), f.Horner(z, s, 8)), low));
  // 1 - z/2 is rounded; what it loses is exact by subtraction.
  const V half = f.b.Mul(f.C(0.5), z);
  const V w = f.b.Sub(f.C(1), half);
  const V lost = f.b.Sub(f.b.Sub(f.C(1), w), half);
  const V rest = f.b.Sub(f.b.Mul(f.b.Mul(z, z), f.Horner(z, c + 1, 7)), f.b.Mul(r, low));
  return {sin, f.b.Add(w, f.b.Add(lost, rest))};
}

V SinF64(Formula& f, V x) {
  const Reduced reduced = ReduceByHalfPi(f, x);
  const SinCos at = SinCosKernel(f, reduced.r, reduced.low);
  const V value = f.b.Select(reduced.odd, at.cos, at.sin);
  const V result = f.b.Select(reduced.negative, f.b.Neg(value), value);
  return f.b.Select(f.b.Eq(x, f.C(0)), x, result);  // -0
}

V CosF64(Formula& f, V x) {
  const Reduced reduced = ReduceByHalfPi(f, x);
  const SinCos at = SinCosKernel(f, reduced.r, reduced.low);
  const V value = f.b.Select(reduced.odd, at.sin, at.cos);
  return f.b.Select(f.b.Xor(reduced.negative, reduced.odd), f.b.Neg(value), value);
}

V TanF64(Formula& f, V x) {
  const Reduced reduced = ReduceByHalfPi(f, x);
  const SinCos at = SinCosKernel(f, reduced.r, reduced.low);
  const V value = f.b.Div(f.b.Select(reduced.odd, f.b.Neg(at.cos), at.sin),
                          f.b.Select(reduced.odd, at.sin, at.cos));
  return f.b.Select(f.b.Eq(x, f.C(0)), x, value);
}

// atan on [0, inf]: the reciprocal, then the half-angle formula twice, then Taylor.
V AtanPositive(Formula& f, V x) {
  const V invert = f.b.Gt(x, f.C(1));
  const V t = f.b.Select(invert, f.b.Div(f.C(1), x), x);
  V u = t;
  for (int i = 0; i < 2; ++i) {
    u = f.b.Div(u, f.b.Add(f.C(1), f.b.Sqrt(f.b.Add(f.C(1), f.b.Mul(u, u)))));
  }
  const V z = f.b.Mul(u, u);
  double c[11];
  for (int i = 0; i < 11; ++i) c[i] = (i % 2 ? 1.0 : -1.0) / (2 * i + 3);
  const V angle = f.b.Add(u, f.b.Mul(f.b.Mul(u, z), f.Horner(z, c, 11)));
  const V value = f.b.Mul(f.C(4), angle);
  const V complement =
      f.b.Add(f.b.Sub(f.C(0x1.921fb54442d18p0), value), f.C(0x1.1a62633145c07p-54));
  // A tiny or subnormal argument is its own arc tangent; the halving above would round it.
  return f.b.Select(f.b.Lt(x, f.C(0x1p-27)), x, f.b.Select(invert, complement, value));
}

V AtanF64(Formula& f, V x) { return f.Copysign(AtanPositive(f, f.b.Abs(x)), x); }

V AsinF64(Formula& f, V x) {
  const V a = f.b.Abs(x);
  const V root = f.b.Sqrt(f.b.Mul(f.b.Sub(f.C(1), a), f.b.Add(f.C(1), a)));
  const V half = AtanPositive(f, f.b.Div(a, f.b.Add(f.C(1), root)));
  return f.Copysign(f.b.Add(half, half), x);
}

V AcosF64(Formula& f, V x) {
  const V ratio = f.b.Div(f.b.Sub(f.C(1), x), f.b.Add(f.C(1), x));
  const V half = AtanPositive(f, f.b.Sqrt(ratio));
  return f.b.Add(half, half);
}

V TanhF64(Formula& f, V x) {
  const V a = f.b.Abs(x);
  const V y = f.b.Add(a, a);
  const V m = Expm1KernelF64(f, f.b.Min(f.C(1.2), y), 21);
  const V small = f.b.Div(m, f.b.Add(m, f.C(2)));
  const V large = f.b.Sub(f.C(1), f.b.Div(f.C(2), f.b.Add(ExpF64(f, y), f.C(1))));
  return f.Copysign(f.b.Select(f.b.Lt(a, f.C(0.55)), small, large), x);
}

V SinhF64(Formula& f, V x) {
  const V a = f.b.Abs(x);
  const V z = f.b.Mul(x, x);
  double c[9];
  double factorial = 1;
  for (int i = 0; i < 9; ++i) {
    factorial *= (2.0 * i + 2) * (2.0 * i + 3);
    c[i] = 1 / factorial;
  }
  const V small = f.b.Add(a, f.b.Mul(f.b.Mul(a, z), f.Horner(z, c, 9)));
  // e^a as the square of e^(a/2): no overflow before the result's.
  const V w = ExpF64(f, f.b.Mul(f.C(0.5), a));
  const V half = f.b.Mul(f.C(0.5), w);
  const V large = f.b.Sub(f.b.Mul(half, w), f.b.Div(f.C(0.5), f.b.Mul(w, w)));
  return f.Copysign(f.b.Select(f.b.Lt(a, f.C(1)), small, large), x);
}

V CoshF64(Formula& f, V x) {
  const V w = ExpF64(f, f.b.Mul(f.C(0.5), f.b.Abs(x)));
  const V half = f.b.Mul(f.C(0.5), w);
  return f.b.Add(f.b.Mul(half, w), f.b.Div(f.C(0.5), f.b.Mul(w, w)));
}

V AsinhF64(Formula& f, V x) {
  const V a = f.b.Abs(x);
  const V z = f.b.Mul(a, a);
  const V root = f.b.Sqrt(f.b.Add(f.C(1), z));
  const V middle = Log1pF64(f, f.b.Add(a, f.b.Div(z, f.b.Add(f.C(1), root))));
  const V huge = f.b.Add(LogF64(f, a), f.C(kLn2));
  return f.Copysign(f.b.Select(f.b.Gt(a, f.C(0x1p28)), huge, middle), x);
}

V AcoshF64(Formula& f, V x) {
  const V t = f.b.Sub(x, f.C(1));
  const V middle = Log1pF64(f, f.b.Add(t, f.b.Sqrt(f.b.Mul(t, f.b.Add(x, f.C(1))))));
  const V huge = f.b.Add(LogF64(f, x), f.C(kLn2));
  const V value = f.b.Select(f.b.Gt(x, f.C(0x1p28)), huge, middle);
  return f.b.Select(f.b.Ge(x, f.C(1)), value, f.C(kNan));
}

V AtanhF64(Formula& f, V x) {
  const V a = f.b.Abs(x);
  const V value = f.b.Mul(f.C(0.5), Log1pF64(f, f.b.Div(f.b.Add(a, a), f.b.Sub(f.C(1), a))));
  return f.Copysign(f.b.Select(f.b.Le(a, f.C(1)), value, f.C(kNan)), x);
}

V ErfF64(Formula& f, V x) {
  const V a = f.b.Abs(x);
  const V z = f.b.Mul(a, a);
  const V p =
      f.Horner(z, {0.12837916709551257389, -0.37612638903183752355, 0.11283791670955118819,
                   -0.026866170645129512296, 0.0052239776254193558351, -0.00085483270216542288455,
                   0.00012055332890110161786, -0.000014925647178716103995, 1.6462037366527975283e-6,
                   -1.636452731269917517e-7, 1.4791301015171311932e-8, -1.2157774978596544522e-9,
                   8.6847219140123731214e-11, -4.19243761909444448e-12});
  const V small = f.b.Add(a, f.b.Mul(a, p));
  // erfc(y) e^(y^2) as a polynomial in (y - 3) / (y + 3), on [1, 6.1]; beyond, erf rounds to 1.
  const V y = f.b.Min(f.C(6.1), a);
  const V t = f.b.Div(f.b.Sub(y, f.C(3)), f.b.Add(y, f.C(3)));
  const V w =
      f.Horner(t, {0.17900115118138995041, -0.32623356004303723364, 0.24560380171233089598,
                   -0.15011593650077571481, 0.071665837197975660585, -0.024392499318796105735,
                   0.0042691363329564929924, 0.00070774644362492482466, -0.00059706195018302304021,
                   0.000045255203235520085616, 0.000064056540455877153509,
                   -0.000012859402378401241965, -7.9774796595502445942e-6, 2.1129502556969819293e-6,
                   1.2456502315853812201e-6, -2.7074735585141587202e-7, -2.0466963229283243861e-7});
  const V large = f.b.Sub(f.C(1), f.b.Mul(w, ExpF64(f, f.b.Neg(f.b.Mul(y, y)))));
  return f.Copysign(f.b.Select(f.b.Lt(a, f.C(1)), small, large), x);
}

V PowF64(Formula& f, V x, V y) {
  Builder& b = f.b;
  const V a = b.Abs(x);
  V value = ExpF64(f, b.Mul(y, LogF64(f, a)));
  value = b.Select(b.Eq(a, f.C(1)), f.C(1), value);  // also 1^inf
  const V is_integer = b.Eq(b.Append1(Opcode::kTrunc, f.type, {y}), y);
  const V half = b.Mul(f.C(0.5), y);
  const V is_odd = b.And(is_integer, b.Ne(b.Append1(Opcode::kTrunc, f.type, {half}), half));
  value = b.Select(is_odd, f.Copysign(value, x), value);
  const V negative = b.And(b.Lt(x, f.C(0)), b.Gt(x, f.C(-kInf)));
  value = b.Select(b.And(negative, b.Not(is_integer)), f.C(kNan), value);
  const V has_nan = b.Or(b.Ne(x, x), b.Ne(y, y));
  value = b.Select(has_nan, f.C(kNan), value);
  return b.Select(b.Or(b.Eq(y, f.C(0)), b.Eq(x, f.C(1))), f.C(1), value);
}

V ExpandF64(Formula& f, Opcode opcode, V x, V y) {
  switch (opcode) {
    case Opcode::kExp:
      return ExpF64(f, x);
    case Opcode::kExp2:
      return Exp2F64(f, x);
    case Opcode::kLog:
      return LogF64(f, x);
    case Opcode::kLog2:
      return Log2F64(f, x);
    case Opcode::kSin:
      return SinF64(f, x);
    case Opcode::kCos:
      return CosF64(f, x);
    case Opcode::kTan:
      return TanF64(f, x);
    case Opcode::kTanh:
      return TanhF64(f, x);
    case Opcode::kErf:
      return ErfF64(f, x);
    case Opcode::kPow:
      return PowF64(f, x, y);
    case Opcode::kAsin:
      return AsinF64(f, x);
    case Opcode::kAcos:
      return AcosF64(f, x);
    case Opcode::kAtan:
      return AtanF64(f, x);
    case Opcode::kSinh:
      return SinhF64(f, x);
    case Opcode::kCosh:
      return CoshF64(f, x);
    case Opcode::kAsinh:
      return AsinhF64(f, x);
    case Opcode::kAcosh:
      return AcoshF64(f, x);
    case Opcode::kAtanh:
      return AtanhF64(f, x);
    case Opcode::kRsqrt:
      return f.b.Div(f.C(1), f.b.Sqrt(x));
    default:
      HY_UNREACHABLE("{} is no transcendental op", FormatOpcode(opcode));
  }
}

V Expand(Builder* b, Type type, const ExpandMathOptions& options, Opcode opcode, V x, V y) {
  Formula f(b, type, options);
  if (type.dtype == DType::kF64) return ExpandF64(f, opcode, x, y);
  switch (opcode) {
    case Opcode::kExp:
      return ExpF32(f, x);
    case Opcode::kExp2:
      return Exp2F32(f, x);
    case Opcode::kLog:
      return LogF32(f, x);
    case Opcode::kLog2:
      return Log2F32(f, x);
    case Opcode::kTanh:
      return TanhF32(f, x);
    case Opcode::kErf:
      return ErfF32(f, x);
    case Opcode::kRsqrt:
      return f.b.Div(f.C(1), f.b.Sqrt(x));
    default:
      break;
  }
  Formula wide(b, {DType::kF64, type.lanes}, options);
  wide.is_widened = true;
  const V result = ExpandF64(wide, opcode, b->Convert(x, DType::kF64), b->Convert(y, DType::kF64));
  return b->Convert(result, DType::kF32);
}

// x^2 and x^3, which models write as powers, by multiplication; kNone for other exponents.
ValueId ExpandSmallPower(Builder* b, ValueId x, ValueId exponent) {
  const OpId producer = b->kernel().values[exponent].producer;
  if (producer == kNone || b->kernel().ops[producer].opcode != Opcode::kConst) return kNone;
  const double y = std::bit_cast<double>(b->kernel().ops[producer].immediates[0]);
  if (y != 2 && y != 3) return kNone;
  const ValueId square = b->Mul(x, x);
  return y == 2 ? square : b->Mul(square, x);
}

}  // namespace

Kernel ExpandMath(const Kernel& kernel, ExpandMathOptions options) {
  return RewriteOps(kernel, [&](Builder* b, const Op& op, std::span<const ValueId> operands) {
    std::optional<ValueId> result;
    if (op.opcode == Opcode::kPow) {
      const ValueId product = ExpandSmallPower(b, operands[0], operands[1]);
      if (product != kNone) return std::optional(product);
    }
    const bool stays =
        op.type.dtype == DType::kF32 &&
        (options.has_f32_functions || (options.has_exp2 && op.opcode == Opcode::kExp2));
    if (InfoOf(op.opcode).transcendental && !stays) {
      result = Expand(b, op.type, options, op.opcode, operands[0], operands.back());
    }
    return result;
  });
}

Module ExpandMath(const Module& module, ExpandMathOptions options) {
  Module out;
  for (const Kernel& kernel : module.kernels) out.kernels.push_back(ExpandMath(kernel, options));
  return out;
}

Kernel SplitFma(const Kernel& kernel) {
  return RewriteOps(kernel, [](Builder* b, const Op& op, std::span<const ValueId> operands) {
    std::optional<ValueId> result;
    if (op.opcode == Opcode::kFma) result = b->Add(b->Mul(operands[0], operands[1]), operands[2]);
    return result;
  });
}

}  // namespace halyard::kernel
