#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# An interactive login in the test box, on its serial console. Same variables as run.sh.
exec "$(dirname "$0")/run.sh" --shell
