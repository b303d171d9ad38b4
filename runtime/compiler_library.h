// SPDX-License-Identifier: Apache-2.0
// The compiler library: opened once per process, at the first compile and never before.
#pragma once

#include "compiler/abi.h"

namespace halyard::runtime {

// The table of libhalyard_compiler.so, which lies beside libhalyard.so (or where
// HALYARD_COMPILER_LIBRARY says). Opens it on the first call; a failure is not remembered, so a
// library installed later is found. UNAVAILABLE says which file and why: missing, another build, no
// such function. Thread-safe.
Result<const CompilerTable*> OpenCompilerLibrary();

// True once OpenCompilerLibrary has succeeded.
bool IsCompilerLibraryOpen();

// What both libraries must agree on: version and a hash of the sources they were built from.
const char* BuildIdentity();

}  // namespace halyard::runtime
