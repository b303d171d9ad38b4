// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile.h"

#include "compiler/pipeline/pipeline.h"

namespace halyard {

Result<CompileResult> Compile(const CompileRequest& request) { return pipeline::Compile(request); }

Status VerifyGraph(const CompileRequest& request) { return pipeline::ImportAndVerify(request); }

}  // namespace halyard
