# SPDX-License-Identifier: Apache-2.0
# What both libraries must agree on: a hash of every source that crosses the border between them.
file(GLOB_RECURSE border CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/base/*.h ${PROJECT_SOURCE_DIR}/compiler/*.h)
file(GLOB_RECURSE compiled CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/base/*.cc ${PROJECT_SOURCE_DIR}/compiler/*.cc)
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/generated/halyard_build.h
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${PROJECT_BINARY_DIR}/generated/halyard_build.h
          -DSOURCE=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
          -DFLAGS=${CMAKE_CXX_COMPILER_ID}-${CMAKE_CXX_COMPILER_VERSION}-${CMAKE_BUILD_TYPE}-${HALYARD_SANITIZE}
          -P ${PROJECT_SOURCE_DIR}/cmake/build_identity.cmake
  DEPENDS ${border} ${compiled} ${PROJECT_SOURCE_DIR}/cmake/build_identity.cmake
  VERBATIM)
add_custom_target(halyard_build_identity DEPENDS ${PROJECT_BINARY_DIR}/generated/halyard_build.h)
add_library(halyard_identity INTERFACE)
target_include_directories(halyard_identity INTERFACE ${PROJECT_BINARY_DIR}/generated)
add_dependencies(halyard_identity halyard_build_identity)
