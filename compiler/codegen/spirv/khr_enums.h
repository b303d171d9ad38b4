// SPDX-License-Identifier: Apache-2.0
// SPIR-V numbers that are newer than the packaged headers: KHR cooperative matrices and bfloat16.
// Constants of our own names, so that newer headers, which declare the same numbers, do no harm.
// From the SPIR-V registry: SPV_KHR_cooperative_matrix and SPV_KHR_bfloat16.
#pragma once

#include <cstdint>
#include <spirv/unified1/spirv.hpp11>

namespace halyard::spirv {

inline constexpr auto kCapabilityCooperativeMatrix = static_cast<spv::Capability>(6022);
inline constexpr auto kCapabilityBFloat16Type = static_cast<spv::Capability>(5116);
inline constexpr auto kCapabilityBFloat16CooperativeMatrix = static_cast<spv::Capability>(5118);

inline constexpr auto kOpTypeCooperativeMatrix = static_cast<spv::Op>(4456);
inline constexpr auto kOpCooperativeMatrixLoad = static_cast<spv::Op>(4457);
inline constexpr auto kOpCooperativeMatrixStore = static_cast<spv::Op>(4458);
inline constexpr auto kOpCooperativeMatrixMulAdd = static_cast<spv::Op>(4459);

inline constexpr uint32_t kFloatEncodingBFloat16 = 0;

// Cooperative Matrix Use.
inline constexpr uint32_t kMatrixUseA = 0;
inline constexpr uint32_t kMatrixUseB = 1;
inline constexpr uint32_t kMatrixUseAccumulator = 2;

// Cooperative Matrix Layout.
inline constexpr uint32_t kMatrixRowMajor = 0;
inline constexpr uint32_t kMatrixColumnMajor = 1;

// Cooperative Matrix Operands.
inline constexpr uint32_t kMatrixASigned = 1;
inline constexpr uint32_t kMatrixBSigned = 2;
inline constexpr uint32_t kMatrixCSigned = 4;
inline constexpr uint32_t kMatrixResultSigned = 8;

}  // namespace halyard::spirv
