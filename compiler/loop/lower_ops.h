// SPDX-License-Identifier: Apache-2.0
// The lowering functions of ops, by family. Nothing but lowering.cc and the families include this.
#pragma once

#include <string_view>

#include "compiler/loop/lowering.h"

namespace halyard::loop {

using LowerFunction = Status (*)(Lowering& lowering, const graph::Module& module,
                                 const graph::Node& node);

// Null where the op has no lowering.
LowerFunction FindLowering(std::string_view op);
// What a lowering refuses beyond the op itself: dtypes and attributes it does not cover.
Status CheckLowering(const graph::Module& module, const graph::Node& node);

Status LowerElementwise(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerCast(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerBitcast(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerSymbolic(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerShapeOf(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerRandomBits(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerFloatRem(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerIntegerPow(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerIota(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerBroadcast(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerReshape(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerTranspose(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerSlice(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerPad(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerConcat(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerGather(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerGatherElements(Lowering& lowering, const graph::Module& module,
                           const graph::Node& node);
Status LowerGatherNd(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerCheckIndex(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerScatterElements(Lowering& lowering, const graph::Module& module,
                            const graph::Node& node);
Status LowerScatterNd(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerOrder(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerCumsum(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerReduce(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerArgReduce(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerMatmul(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerConv(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerConvTranspose(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerResize(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerPool(Lowering& lowering, const graph::Module& module, const graph::Node& node);
Status LowerAttention(Lowering& lowering, const graph::Module& module, const graph::Node& node);

// Attributes with defaults.
int64_t IntOr(const graph::Node& node, std::string_view name, int64_t fallback);
std::string StringOr(const graph::Node& node, std::string_view name, std::string_view fallback);

}  // namespace halyard::loop
