// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/features.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace halyard::drivers::cpu {
namespace {

struct FeatureName {
  CpuFeature feature;
  const char* name;
};

constexpr FeatureName kNames[] = {
    {CpuFeature::kSse42, "sse4.2"},           {CpuFeature::kAvx2, "avx2"},
    {CpuFeature::kAvx512, "avx512"},          {CpuFeature::kAvx512Vnni, "avx512-vnni"},
    {CpuFeature::kAvx512Bf16, "avx512-bf16"}, {CpuFeature::kAvx512Fp16, "avx512-fp16"},
    {CpuFeature::kAmxTile, "amx-tile"},       {CpuFeature::kAmxInt8, "amx-int8"},
    {CpuFeature::kAmxBf16, "amx-bf16"},
};

#if defined(__x86_64__)

constexpr uint64_t kXcr0Avx = 0x6;         // XMM and YMM state
constexpr uint64_t kXcr0Avx512 = 0xe6;     // and opmask, ZMM0-15 high halves, ZMM16-31
constexpr uint64_t kXcr0Amx = 0x60000;     // TILECFG and TILEDATA
constexpr int kArchReqXcompPerm = 0x1023;  // arch_prctl code of Linux 5.16
constexpr int kXfeatureTileData = 18;

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf ReadLeaf(uint32_t leaf, uint32_t subleaf) {
  Leaf r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return Leaf();
  return r;
}

bool HasBit(uint32_t word, int bit) { return (word >> bit & 1) != 0; }

uint64_t ReadXcr0() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

uint64_t DetectFeatures(const Leaf& one) {
  uint64_t features = 0;
  auto add = [&](CpuFeature feature) { features |= static_cast<uint64_t>(feature); };
  if (HasBit(one.ecx, 20) && HasBit(one.ecx, 23)) add(CpuFeature::kSse42);  // and POPCNT
  bool has_osxsave = HasBit(one.ecx, 27);
  uint64_t xcr0 = has_osxsave ? ReadXcr0() : 0;
  Leaf seven = ReadLeaf(7, 0);
  Leaf seven_one = ReadLeaf(7, 1);

  bool has_fma = HasBit(one.ecx, 12), has_f16c = HasBit(one.ecx, 29), has_avx = HasBit(one.ecx, 28);
  bool has_avx2 = HasBit(seven.ebx, 5), has_bmi2 = HasBit(seven.ebx, 8);
  bool is_avx2 =
      (xcr0 & kXcr0Avx) == kXcr0Avx && has_avx && has_avx2 && has_fma && has_f16c && has_bmi2;
  if (is_avx2) add(CpuFeature::kAvx2);

  // F, DQ, CD, BW, VL
  bool is_avx512 = is_avx2 && (xcr0 & kXcr0Avx512) == kXcr0Avx512 && HasBit(seven.ebx, 16) &&
                   HasBit(seven.ebx, 17) && HasBit(seven.ebx, 28) && HasBit(seven.ebx, 30) &&
                   HasBit(seven.ebx, 31);
  if (is_avx512) {
    add(CpuFeature::kAvx512);
    if (HasBit(seven.ecx, 11)) add(CpuFeature::kAvx512Vnni);
    if (HasBit(seven_one.eax, 5)) add(CpuFeature::kAvx512Bf16);
    if (HasBit(seven.edx, 23)) add(CpuFeature::kAvx512Fp16);
  }
  bool has_tile = HasBit(seven.edx, 24) && (xcr0 & kXcr0Amx) == kXcr0Amx;
  if (is_avx512 && has_tile && syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0) {
    add(CpuFeature::kAmxTile);
    if (HasBit(seven.edx, 25)) add(CpuFeature::kAmxInt8);
    if (HasBit(seven.edx, 22)) add(CpuFeature::kAmxBf16);
  }
  return features;
}

std::string ReadBrand() {
  uint32_t words[12];
  // GCC returns an unsigned number, Clang a signed one.
  if (static_cast<uint32_t>(__get_cpuid_max(0x80000000, nullptr)) < 0x80000004) return "";
  for (uint32_t i = 0; i < 3; ++i) {
    Leaf leaf = ReadLeaf(0x80000002 + i, 0);
    uint32_t part[4] = {leaf.eax, leaf.ebx, leaf.ecx, leaf.edx};
    std::memcpy(words + 4 * i, part, sizeof(part));
  }
  char text[sizeof(words) + 1] = {};
  std::memcpy(text, words, sizeof(words));
  std::string brand(text);
  size_t first = brand.find_first_not_of(' ');
  size_t last = brand.find_last_not_of(' ');
  return first == std::string::npos ? "" : brand.substr(first, last - first + 1);
}

#endif  // __x86_64__

}  // namespace

CpuId DetectCpu() {
  CpuId id;
#if defined(__x86_64__)
  uint32_t max = 0, vendor[3];
  if (!__get_cpuid(0, &max, &vendor[0], &vendor[2], &vendor[1])) return id;
  char text[13] = {};
  std::memcpy(text, vendor, 12);
  id.vendor = text;
  id.brand = ReadBrand();
  Leaf one = ReadLeaf(1, 0);
  id.stepping = one.eax & 0xf;
  id.model = one.eax >> 4 & 0xf;
  id.family = one.eax >> 8 & 0xf;
  if (id.family == 6 || id.family == 15) id.model |= (one.eax >> 16 & 0xf) << 4;
  if (id.family == 15) id.family += one.eax >> 20 & 0xff;
  id.is_hypervised = HasBit(one.ecx, 31);
  id.features = DetectFeatures(one);
#endif
  return id;
}

std::vector<std::string> FormatCpuFeatures(uint64_t features) {
  std::vector<std::string> names;
  for (const FeatureName& row : kNames) {
    uint64_t bit = static_cast<uint64_t>(row.feature);
    if (features & bit) names.push_back(row.name);
    features &= ~bit;
  }
  for (int bit = 0; bit < 64; ++bit) {
    if (features >> bit & 1) names.push_back(fmt::format("bit {}", bit));
  }
  return names;
}

uint64_t KnownCpuFeatures() {
  uint64_t all = 0;
  for (const FeatureName& row : kNames) all |= static_cast<uint64_t>(row.feature);
  return all;
}

}  // namespace halyard::drivers::cpu
