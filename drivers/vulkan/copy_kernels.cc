// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/copy_kernels.h"

#include <algorithm>

#include "drivers/vulkan/spirv_builder.h"

namespace halyard::drivers::vulkan {
namespace {

using Id = SpirvBuilder::Id;

// The byte offset of the workitem's sixteen bytes.
Id OffsetOfWorkitem(SpirvBuilder& b) {
  Id wide = b.Uint(64);
  Id row = b.Op(spv::OpUConvert, wide, {b.WorkgroupId(1)});
  Id width = b.Op(spv::OpUConvert, wide, {b.WorkgroupCount(0)});
  Id column = b.Op(spv::OpUConvert, wide, {b.WorkgroupId(0)});
  Id group = b.Op(spv::OpIAdd, wide, {b.Op(spv::OpIMul, wide, {row, width}), column});
  Id first = b.Op(spv::OpIMul, wide, {group, b.Constant64(kCopyWorkgroupSize)});
  Id index = b.Op(spv::OpIAdd, wide, {first, b.Op(spv::OpUConvert, wide, {b.WorkitemIndex()})});
  return b.Op(spv::OpIMul, wide, {index, b.Constant64(kCopyBytesPerWorkitem)});
}

// Whether all of the bits in `mask` are 0 in `value`.
Id AreClear(SpirvBuilder& b, Id value, uint64_t mask) {
  Id bits = b.Op(spv::OpBitwiseAnd, b.Uint(64), {value, b.Constant64(mask)});
  return b.Op(spv::OpIEqual, b.Bool(), {bits, b.Constant64(0)});
}

Id EndOfWorkitem(SpirvBuilder& b, Id offset, Id size) {
  Id end = b.Op(spv::OpIAdd, b.Uint(64), {offset, b.Constant64(kCopyBytesPerWorkitem)});
  Id is_inside = b.Op(spv::OpULessThan, b.Bool(), {end, size});
  return b.Op(spv::OpSelect, b.Uint(64), {is_inside, end, size});
}

}  // namespace

std::vector<uint32_t> MakeCopyKernel() {
  SpirvBuilder b("copy", kCopyWorkgroupSize, kCopyArguments);
  b.AddCapability(spv::CapabilityStorageBuffer8BitAccess);
  Id wide = b.Uint(64);
  Id source = b.Argument(0), target = b.Argument(1), size = b.Argument(2);
  Id offset = OffsetOfWorkitem(b);
  auto at = [&](Id base, Id by) { return b.Op(spv::OpIAdd, wide, {base, by}); };
  b.If(b.Op(spv::OpULessThan, b.Bool(), {offset, size}), [&] {
    Id all = b.Op(spv::OpBitwiseOr, wide, {b.Op(spv::OpBitwiseOr, wide, {source, target}), size});
    auto pieces = [&](Id type, uint32_t bytes) {
      b.For(offset, EndOfWorkitem(b, offset, size), bytes, [&](Id i) {
        b.StoreTo(at(target, i), type, b.LoadFrom(at(source, i), type, bytes), bytes);
      });
    };
    b.If(
        AreClear(b, all, 15),
        [&] {
          Id type = b.Vector(b.Uint(32), 4);
          b.StoreTo(at(target, offset), type, b.LoadFrom(at(source, offset), type, 16), 16);
        },
        [&] {
          b.If(
              AreClear(b, all, 3), [&] { pieces(b.Uint(32), 4); }, [&] { pieces(b.Uint(8), 1); });
        });
  });
  return b.Finish();
}

std::vector<uint32_t> MakeFillKernel() {
  SpirvBuilder b("fill", kCopyWorkgroupSize, kFillArguments);
  b.AddCapability(spv::CapabilityStorageBuffer8BitAccess);
  Id wide = b.Uint(64), word = b.Uint(32), byte = b.Uint(8);
  Id target = b.Argument(0), size = b.Argument(1), pattern = b.Argument(2);
  Id offset = OffsetOfWorkitem(b);
  auto at = [&](Id by) { return b.Op(spv::OpIAdd, wide, {target, by}); };
  // The pattern from its byte `i` on.
  auto shifted = [&](Id i, uint64_t mask) {
    Id bytes = b.Op(spv::OpBitwiseAnd, wide, {i, b.Constant64(mask)});
    Id bits = b.Op(spv::OpIMul, wide, {bytes, b.Constant64(8)});
    return b.Op(spv::OpShiftRightLogical, wide, {pattern, bits});
  };
  b.If(b.Op(spv::OpULessThan, b.Bool(), {offset, size}), [&] {
    Id all = b.Op(spv::OpBitwiseOr, wide, {target, size});
    b.If(
        AreClear(b, all, 15),
        [&] {
          Id low = b.Op(spv::OpUConvert, word, {pattern});
          Id high = b.Op(spv::OpUConvert, word, {shifted(b.Constant64(4), 7)});
          Id type = b.Vector(word, 4);
          b.StoreTo(at(offset), type, b.Op(spv::OpCompositeConstruct, type, {low, high, low, high}),
                    16);
        },
        [&] {
          Id end = EndOfWorkitem(b, offset, size);
          b.If(
              AreClear(b, all, 3),
              [&] {
                b.For(offset, end, 4, [&](Id i) {
                  b.StoreTo(at(i), word, b.Op(spv::OpUConvert, word, {shifted(i, 4)}), 4);
                });
              },
              [&] {
                b.For(offset, end, 1, [&](Id i) {
                  b.StoreTo(at(i), byte, b.Op(spv::OpUConvert, byte, {shifted(i, 7)}), 1);
                });
              });
        });
  });
  return b.Finish();
}

uint64_t RepeatPattern(uint64_t pattern, uint32_t pattern_bytes) {
  if (pattern_bytes >= 8) return pattern;
  pattern &= (uint64_t{1} << 8 * pattern_bytes) - 1;
  for (uint32_t bytes = pattern_bytes; bytes < 8; bytes *= 2) pattern |= pattern << 8 * bytes;
  return pattern;
}

CopyGrid GridForBytes(int64_t size_bytes) {
  constexpr int64_t kBytesPerGroup = kCopyBytesPerWorkitem * kCopyWorkgroupSize;
  constexpr int64_t kWidth = 32768;
  int64_t groups = size_bytes / kBytesPerGroup + (size_bytes % kBytesPerGroup != 0);
  int64_t width = std::min(groups, kWidth);
  int64_t rows = width == 0 ? 0 : (groups + width - 1) / width;
  return {static_cast<uint32_t>(width), static_cast<uint32_t>(rows)};
}

}  // namespace halyard::drivers::vulkan
