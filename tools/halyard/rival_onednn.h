// SPDX-License-Identifier: Apache-2.0
// oneDNN beside a CPU: matmul, conv, softmax and layernorm.
#pragma once

#include "tools/halyard/bench_op.h"
#include "tools/halyard/rival.h"

namespace halyard::tools {

// `inputs`: of the op's graph, in its order; borrowed. `threads`: of Halyard, which OpenMP takes
// too. Operands lie as Halyard is given them; a layout that the library wants for a convolution is
// made in each run, from data that no earlier run has packed.
RivalOffer OfferOneDnn(const OpCase& op, const std::vector<Tensor>& inputs, int threads);

}  // namespace halyard::tools
