// SPDX-License-Identifier: Apache-2.0
// Activation functions that other families of ops use too. Private to compiler/import.
#pragma once

#include "compiler/import/onnx_context.h"

namespace halyard::onnx {

V Sigmoid(V x);
// log(1 + e^x) without overflow.
V Softplus(V x);

}  // namespace halyard::onnx
