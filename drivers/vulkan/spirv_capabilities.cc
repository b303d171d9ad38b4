// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/spirv_capabilities.h"

#include <spirv/unified1/spirv.hpp>

namespace halyard::drivers::vulkan {
namespace {

// Newer than the packaged headers; the numbers are the registry's.
constexpr uint32_t kCooperativeMatrixKhr = 6022;
constexpr uint32_t kBFloat16Type = 5116;
constexpr uint32_t kBFloat16DotProduct = 5117;
constexpr uint32_t kBFloat16CooperativeMatrix = 5118;
constexpr uint32_t kCooperativeMatrixReductionsNv = 5430;
constexpr uint32_t kCooperativeMatrixConversionsNv = 5431;
constexpr uint32_t kCooperativeMatrixPerElementOperationsNv = 5432;
constexpr uint32_t kCooperativeMatrixTensorAddressingNv = 5433;
constexpr uint32_t kCooperativeMatrixBlockLoadsNv = 5434;
constexpr uint32_t kTensorAddressingNv = 5439;

struct Row {
  uint32_t capability;
  const char* name;
  bool (*is_there)(const DeviceHandle& device);
};

bool HasSubgroup(const DeviceHandle& device, VkSubgroupFeatureFlags flag) {
  return (device.physical->v11.subgroupSupportedOperations & flag) != 0 &&
         (device.physical->v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
}

#define HY_ALWAYS(name)                                                    \
  {                                                                        \
    spv::Capability##name, #name, [](const DeviceHandle&) { return true; } \
  }
#define HY_IF(name, expression)                                                            \
  {                                                                                        \
    spv::Capability##name, #name, [](const DeviceHandle& d) -> bool { return expression; } \
  }
#define HY_NUMBER(number, name, expression)                                \
  {                                                                        \
    number, name, [](const DeviceHandle& d) -> bool { return expression; } \
  }

const Row kRows[] = {
    HY_ALWAYS(Matrix),
    HY_ALWAYS(Shader),
    HY_ALWAYS(PhysicalStorageBufferAddresses),
    HY_IF(Float16, d.features.v12.shaderFloat16),
    HY_IF(Float64, d.features.base.features.shaderFloat64),
    HY_IF(Int64, d.features.base.features.shaderInt64),
    HY_IF(Int64Atomics, d.features.v12.shaderBufferInt64Atomics),
    HY_IF(Int16, d.features.base.features.shaderInt16),
    HY_IF(Int8, d.features.v12.shaderInt8),
    HY_IF(StorageBuffer16BitAccess, d.features.v11.storageBuffer16BitAccess),
    HY_IF(StorageUniform16, d.features.v11.uniformAndStorageBuffer16BitAccess),
    HY_IF(StoragePushConstant16, d.features.v11.storagePushConstant16),
    HY_IF(StorageBuffer8BitAccess, d.features.v12.storageBuffer8BitAccess),
    HY_IF(UniformAndStorageBuffer8BitAccess, d.features.v12.uniformAndStorageBuffer8BitAccess),
    HY_IF(StoragePushConstant8, d.features.v12.storagePushConstant8),
    HY_IF(VulkanMemoryModel, d.features.v12.vulkanMemoryModel),
    HY_IF(VulkanMemoryModelDeviceScope, d.features.v12.vulkanMemoryModelDeviceScope),
    HY_IF(DenormPreserve, d.physical->v12.shaderDenormPreserveFloat32 ||
                              d.physical->v12.shaderDenormPreserveFloat16),
    HY_IF(DenormFlushToZero, d.physical->v12.shaderDenormFlushToZeroFloat32 ||
                                 d.physical->v12.shaderDenormFlushToZeroFloat16),
    HY_IF(SignedZeroInfNanPreserve, d.physical->v12.shaderSignedZeroInfNanPreserveFloat32),
    HY_IF(RoundingModeRTE, d.physical->v12.shaderRoundingModeRTEFloat32 ||
                               d.physical->v12.shaderRoundingModeRTEFloat16),
    HY_IF(RoundingModeRTZ, d.physical->v12.shaderRoundingModeRTZFloat32 ||
                               d.physical->v12.shaderRoundingModeRTZFloat16),
    HY_IF(GroupNonUniform, HasSubgroup(d, VK_SUBGROUP_FEATURE_BASIC_BIT)),
    HY_IF(GroupNonUniformVote, HasSubgroup(d, VK_SUBGROUP_FEATURE_VOTE_BIT)),
    HY_IF(GroupNonUniformArithmetic, HasSubgroup(d, VK_SUBGROUP_FEATURE_ARITHMETIC_BIT)),
    HY_IF(GroupNonUniformBallot, HasSubgroup(d, VK_SUBGROUP_FEATURE_BALLOT_BIT)),
    HY_IF(GroupNonUniformShuffle, HasSubgroup(d, VK_SUBGROUP_FEATURE_SHUFFLE_BIT)),
    HY_IF(GroupNonUniformShuffleRelative, HasSubgroup(d, VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT)),
    HY_IF(GroupNonUniformClustered, HasSubgroup(d, VK_SUBGROUP_FEATURE_CLUSTERED_BIT)),
    HY_IF(GroupNonUniformQuad, HasSubgroup(d, VK_SUBGROUP_FEATURE_QUAD_BIT)),
    HY_IF(DotProduct, d.features.v13.shaderIntegerDotProduct),
    HY_IF(DotProductInputAll, d.features.v13.shaderIntegerDotProduct),
    HY_IF(DotProductInput4x8Bit, d.features.v13.shaderIntegerDotProduct),
    HY_IF(DotProductInput4x8BitPacked, d.features.v13.shaderIntegerDotProduct),
    HY_IF(WorkgroupMemoryExplicitLayoutKHR,
          d.features.workgroup_layout.workgroupMemoryExplicitLayout),
    HY_IF(WorkgroupMemoryExplicitLayout8BitAccessKHR,
          d.features.workgroup_layout.workgroupMemoryExplicitLayout8BitAccess),
    HY_IF(WorkgroupMemoryExplicitLayout16BitAccessKHR,
          d.features.workgroup_layout.workgroupMemoryExplicitLayout16BitAccess),
    HY_IF(AtomicFloat32AddEXT, d.features.atomic_float.shaderBufferFloat32AtomicAdd),
    HY_IF(AtomicFloat64AddEXT, d.features.atomic_float.shaderBufferFloat64AtomicAdd),
    HY_NUMBER(kCooperativeMatrixKhr, "CooperativeMatrixKHR", d.features.matrix.cooperativeMatrix),
    HY_NUMBER(kBFloat16Type, "BFloat16TypeKHR", d.features.bfloat16.shaderBFloat16Type),
    HY_NUMBER(kBFloat16DotProduct, "BFloat16DotProductKHR",
              d.features.bfloat16.shaderBFloat16DotProduct),
    HY_NUMBER(kBFloat16CooperativeMatrix, "BFloat16CooperativeMatrixKHR",
              d.features.bfloat16.shaderBFloat16CooperativeMatrix),
    HY_NUMBER(kCooperativeMatrixReductionsNv, "CooperativeMatrixReductionsNV",
              d.features.matrix2.cooperativeMatrixReductions),
    HY_NUMBER(kCooperativeMatrixConversionsNv, "CooperativeMatrixConversionsNV",
              d.features.matrix2.cooperativeMatrixConversions),
    HY_NUMBER(kCooperativeMatrixPerElementOperationsNv, "CooperativeMatrixPerElementOperationsNV",
              d.features.matrix2.cooperativeMatrixPerElementOperations),
    HY_NUMBER(kCooperativeMatrixTensorAddressingNv, "CooperativeMatrixTensorAddressingNV",
              d.features.matrix2.cooperativeMatrixTensorAddressing),
    HY_NUMBER(kCooperativeMatrixBlockLoadsNv, "CooperativeMatrixBlockLoadsNV",
              d.features.matrix2.cooperativeMatrixBlockLoads),
    HY_NUMBER(kTensorAddressingNv, "TensorAddressingNV",
              d.features.matrix2.cooperativeMatrixTensorAddressing),
};

#undef HY_ALWAYS
#undef HY_IF
#undef HY_NUMBER

}  // namespace

Status CheckCapabilities(const SpirvModule& module, const DeviceHandle& device) {
  // Vulkan 1.2 takes SPIR-V 1.5, 1.3 takes 1.6.
  uint32_t newest = device.physical->api_version >= VK_API_VERSION_1_3 ? 0x10600 : 0x10500;
  if (module.words[1] > newest) {
    return Incompatible("A module is SPIR-V {}.{}; this device takes up to {}.{}.",
                        module.words[1] >> 16, module.words[1] >> 8 & 0xff, newest >> 16,
                        newest >> 8 & 0xff);
  }
  for (uint32_t capability : module.capabilities) {
    const Row* row = nullptr;
    for (const Row& candidate : kRows) {
      if (candidate.capability == capability) row = &candidate;
    }
    if (!row) return Incompatible("A module needs the SPIR-V capability {}.", capability);
    if (!row->is_there(device)) {
      return Incompatible("A module needs the SPIR-V capability {}, which this device lacks.",
                          row->name);
    }
  }
  return OkStatus();
}

}  // namespace halyard::drivers::vulkan
