# SPDX-License-Identifier: Apache-2.0
# Installation of libraries, headers, the command and the package files: find_package(Halyard) gives the
# target Halyard::halyard, pkg-config the package halyard.
include(CMakePackageConfigHelpers)

set_target_properties(halyard PROPERTIES EXPORT_NAME halyard)
install(TARGETS halyard EXPORT HalyardTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET halyard_compiler)
  install(TARGETS halyard_compiler LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS halyard_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/halyard.h include/halyard.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The package files name what is beside them: those at the root of the build tree the build tree, those that are
# installed the prefix, wherever it is moved to.
set(installed ${PROJECT_BINARY_DIR}/package)
install(EXPORT HalyardTargets NAMESPACE Halyard:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Halyard)
export(EXPORT HalyardTargets NAMESPACE Halyard:: FILE ${PROJECT_BINARY_DIR}/HalyardTargets.cmake)
foreach(folder ${installed} ${PROJECT_BINARY_DIR})
  configure_package_config_file(cmake/HalyardConfig.cmake.in ${folder}/HalyardConfig.cmake
                                INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Halyard)
  write_basic_package_version_file(${folder}/HalyardConfigVersion.cmake COMPATIBILITY SameMinorVersion)
endforeach()
install(FILES ${installed}/HalyardConfig.cmake ${installed}/HalyardConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Halyard)

set(HALYARD_PC_PREFIX ${PROJECT_BINARY_DIR})
set(HALYARD_PC_LIBDIR ${PROJECT_BINARY_DIR}/lib)
set(HALYARD_PC_INCLUDEDIR ${PROJECT_SOURCE_DIR}/include)
configure_file(cmake/halyard.pc.in ${PROJECT_BINARY_DIR}/halyard.pc @ONLY)
file(RELATIVE_PATH prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(HALYARD_PC_PREFIX "\${pcfiledir}/${prefix}")
set(HALYARD_PC_LIBDIR "\${pcfiledir}/..")
set(HALYARD_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
configure_file(cmake/halyard.pc.in ${installed}/halyard.pc @ONLY)
install(FILES ${installed}/halyard.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
