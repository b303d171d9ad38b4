# SPDX-License-Identifier: Apache-2.0
# Compiler options and the libraries that more than one layer uses.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()
# For Clang, a quarter off a build from nothing, which ccache does better. GCC 12 warns about the standard library
# where it comes precompiled. A missing include shows without them only.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND NOT CCACHE)
  set(HALYARD_PRECOMPILED_DEFAULT ON)
else()
  set(HALYARD_PRECOMPILED_DEFAULT OFF)
endif()
option(HALYARD_PRECOMPILED_HEADERS "Compile common headers once." ${HALYARD_PRECOMPILED_DEFAULT})
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()
if(HALYARD_SANITIZE)
  add_compile_options(-fsanitize=${HALYARD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HALYARD_SANITIZE})
endif()

include(GNUInstallDirs)
if(HALYARD_FUZZERS AND HALYARD_FUZZ_COVERAGE)
  # Coverage of the libraries, without which a fuzzer mutates blindly.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

# What every target of ours compiles with. No contraction: the reference evaluation and the interpreters
# define results bit by bit.
add_library(halyard_options INTERFACE)
target_compile_options(halyard_options INTERFACE -Wall -Wextra -Werror -ffp-contract=off
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_include_directories(halyard_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
if(HALYARD_ABORT_ON_CHECK)
  target_compile_definitions(halyard_options INTERFACE HALYARD_ABORT_ON_CHECK)
endif()

# halyard_precompile(NAME FIRST [HEADER...]): what most files of NAME include is compiled once, with the headers
# given, for the target FIRST, whose result the others take.
set(HALYARD_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <functional> <map> <memory>
  <mutex> <numeric> <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>
  ${PROJECT_SOURCE_DIR}/base/status.h)
function(halyard_precompile name first)
  if(NOT HALYARD_PRECOMPILED_HEADERS)
    return()
  elseif(name STREQUAL first)
    target_precompile_headers(${name} PRIVATE ${HALYARD_COMMON_HEADERS} ${ARGN})
  else()
    target_precompile_headers(${name} REUSE_FROM ${first})
  endif()
endfunction()

# A static library of all .cc files directly in the current folder and the folders named.
function(halyard_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;DEPS" ${ARGN})
  if(NOT ARG_FOLDERS)
    set(ARG_FOLDERS .)
  endif()
  set(globs)
  foreach(folder IN LISTS ARG_FOLDERS)
    list(APPEND globs ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC halyard_options ${ARG_DEPS})
  halyard_precompile(${name} halyard_base)
endfunction()
