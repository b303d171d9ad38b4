# SPDX-License-Identifier: Apache-2.0
# Installation of libraries, headers, the command and the package files.
