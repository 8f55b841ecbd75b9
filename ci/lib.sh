# Functions that several scripts of ci/ share: they source this file from the repository's root.

# Leaves a check out, with the reason, and ends the script. In CI that fails, unless SAMARA_MAY_SKIP
# names the check (`SAMARA_MAY_SKIP="aarch64 oracle" .ci/run`).
skip() { # CHECK REASON
    echo "skipped: $1: $2"
    if [ "${CI:-}" = true ] && [[ " ${SAMARA_MAY_SKIP:-} " != *" $1 "* ]]; then
        echo "$1: must not be skipped in CI; SAMARA_MAY_SKIP=\"$1\" allows it" >&2
        exit 1
    fi
    exit 0
}

# Installs the nightly toolchain, and the named components of it, where they are missing.
nightly() { # [COMPONENT...]
    local component
    rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
    for component in "$@"; do
        rustup component list --toolchain nightly --installed | grep -q "^$component" ||
            rustup component add --toolchain nightly "$component"
    done
}

# Installs a target of the toolchain in force, where it is missing.
target() { # TARGET
    rustup target list --installed | grep -qx "$1" || rustup target add "$1"
}

# Whether a script was asked for the long form of its check: `ci/miri.sh full`.
full() { # [ARGUMENT]
    case ${1:-} in
    '') return 1 ;;
    full) return 0 ;;
    *) echo "$0: the only argument is \`full\`, not \`$1\`" >&2 && exit 2 ;;
    esac
}

# Runs a command as root, without a question.
as_root() { # COMMAND [ARGUMENT...]
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Installs packages of Debian. Fails where that is not possible.
packages() { # PACKAGE...
    get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"; }
    { get "$@" || { as_root apt-get update && get "$@"; }; } >/dev/null 2>&1 </dev/null
}

# Whether a program is there, or can be installed by packages of Debian.
installed() { # PROGRAM PACKAGE...
    command -v "$1" >/dev/null || { packages "${@:2}" && command -v "$1" >/dev/null; }
}

# Installs a program where it is missing. Where that fails, the check is left out.
program() { # CHECK PROGRAM PACKAGE...
    installed "${@:2}" || skip "$1" "$2 is missing, and Debian's package $3 cannot be installed"
}
