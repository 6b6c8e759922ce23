# Functions for the other scripts, which source this file. It finds the repository, checks for
# needed programs and builds.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() { echo "$(basename "$0"): $*" >&2; exit 1; }

# With --help a script prints its first comment.
case " $* " in
*' --help '* | *' -h '*)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit 0
  ;;
esac

# no_option ARGUMENT fails because the script has no such option. It shows the script's options as
# its first comment lists them.
no_option() {
  sed -n "s|^#   scripts/|  scripts/|p; s|^#    *\[|    [|p" "$0" >&2
  fail "there is no option $1"
}

# With an empty HOME, Go has no directory to build in.
if [ -z "${HOME:-}" ]; then
  HOME=$(mktemp -d)
  export HOME
fi

# GOFLAGS of the machine must not change what is built. All scripts build with the same options, so
# that no package is compiled twice. The compiler's garbage collector runs a fourth as often as
# usual, because it takes a quarter of the compiler's time. The output is the same. Nothing uses the
# documentation generator of the command line library, and its markdown parser would take 0.5 ms of
# each start.
export GOFLAGS="'-toolexec=env GOGC=400' -trimpath -tags=urfave_cli_no_docs" CGO_ENABLED=0

need_go() {
  command -v go >/dev/null || fail "Go is not installed: get it from https://go.dev/dl/ and put its bin directory on your PATH"
  local want have
  want=$(sed -n 's/^go //p' "$root/go.work")
  have=$(go env GOVERSION | sed 's/^go//')
  [ "$(printf '%s\n' "$want" "$have" | sort -V | head -n 1)" = "$want" ] ||
    fail "Go $want or newer is needed, this is $have"
}

# These are all commands to build. codex expects the helpers next to itself.
commands=(codex codex-fs codex-linux-sandbox)

# build DIR COMMAND... builds static, stripped, reproducible binaries. CODEX_RELEASE, if it is set, is
# the version of the binaries.
build() {
  local dir=$1 vcs=auto command version=
  shift
  [ -z "${CODEX_RELEASE:-}" ] || version="-X codex.internal/cmd/codex/cli/cmdutil.release=$CODEX_RELEASE"
  git -C "$root" rev-parse HEAD >/dev/null 2>&1 || vcs=false
  mkdir -p "$dir"
  for command in "$@"; do
    # Aligning functions to 16 bytes instead of 32 makes codex 130 KB smaller, with no measurable
    # effect on its speed.
    (cd "$root/cmd/$command" &&
      CGO_ENABLED=0 GOWORK="$root/go.work" go build -buildvcs=$vcs \
        -ldflags "-s -w -funcalign=16 $version" -o "$dir/$command" .) || return 1
  done
}

# need_program PROGRAM PACKAGE makes sure that a program of the system exists. Root installs the
# distribution's package.
need_program() { need "$2" command -v "$1"; }

# need PACKAGE COMMAND... runs a command that succeeds if the needed files exist. If it fails, need
# installs a Debian package, if it may, and runs the command again. If it still fails, need fails.
need() {
  local package=$1
  shift
  "$@" >/dev/null 2>&1 && return
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "Installing $package ..." >&2
    # On a machine that never updated its package lists, they are unusable. A new machine may be
    # installing updates, and hold the lock.
    local install=(apt-get install -o DPkg::Lock::Timeout=300 -y -qq --no-install-recommends "$package")
    { "${install[@]}" || { apt-get update -qq && "${install[@]}"; }; } >/dev/null 2>&1
  fi
  "$@" >/dev/null 2>&1 || fail "$package is needed: as root, apt-get install $package"
}

# known_flake NAME succeeds if .ci/known-flakes lists a test or scenario with that name.
known_flake() { cut -f 2 "$root/.ci/known-flakes" | grep -qxF -e "$1"; }

# recorded NAME RUNNER ARGUMENTS... replays recorded conversations. It fails if one case fails. A
# message for which the case has no particular time limit may take 20 s.
recorded() {
  local name=$1 log wrong=0
  shift
  log=$(mktemp) || return 1
  "$@" -wait 20s > "$log" 2>&1 || wrong=1
  echo "$name: $(tail -n 1 "$log")"
  if ! grep -qE '^[0-9]+ passed' "$log"; then
    tail -n 20 "$log"
    wrong=1
  fi
  grep -A 4 '^FAIL' "$log" || true
  rm -f "$log"
  return "$wrong"
}

# as_today FROM TO copies recorded cases of 0.142.0 and 0.169.0, and permits what 0.171.0 has changed:
# the error of a failed start has data, which says why.
as_today() {
  local file
  mkdir -p "$2"
  for file in "$1"/*.case; do
    sed -E '/call process\/start .*=> error \{"code":-32603,/ s/\}$/,"...":1}/' "$file" > "$2/${file##*/}"
  done
}

# failures LOG prints the failures in the output of go test -v, in at most ten lines: the package,
# the test, and the first line of its message. A test with a failed part is omitted, because the
# part is printed.
failures() {
  awk '
    function short(text) { gsub(/\t/, " ", text); sub(/^ +/, "", text); return length(text) > 160 ? substr(text, 1, 160) "..." : text }
    function add(name, text) { names[++n] = name; texts[n] = text; pending[++p] = n }
    function finish(package,   i) {
      if (died != "" && p > 0 && texts[pending[p]] == "") texts[pending[p]] = died
      else if (died != "" && !(p > 0 && died ~ /DATA RACE/)) add("", died)
      else if (p == 0) add("", package in built ? built[package] : "it failed without a word" (running != "" ? " (in " running ")" : ""))
      for (i = 1; i <= p; i++) where[pending[i]] = package
      reset()
    }
    function reset() { p = 0; died = ""; running = ""; delete first }
    /^=== (RUN|NAME|CONT) / { running = $3; next }
    /^ *--- FAIL: / {
      name = $3
      add(name, name in first ? first[name] : "")
      next
    }
    /^(panic: |fatal error: |SIG[A-Z]+: |WARNING: DATA RACE)/ { if (died == "") died = short($0) (running != "" ? " (in " running ")" : ""); next }
    /^# \[/ { next }
    /^# / { compiling = $2; next }
    compiling != "" && /^(vet: )?[^ ]+\.go:[0-9]+/ { if (!(compiling in built)) built[compiling] = short($0); next }
    /^ +[^ ]+\.go:[0-9]+: / { if (!(running in first)) first[running] = short($0); next }
    /^FAIL\t/ { package = $2; finish(package); next }
    /^ok  \t/ { reset(); next }
    END {
      if (p > 0 || died != "") finish("?")
      for (i = 1; i <= n; i++) {
        whole = 0
        for (j = 1; j <= n; j++) if (names[i] != "" && where[i] == where[j] && index(names[j], names[i] "/") == 1) whole = 1
        if (whole) continue
        lines[++shown] = "FAIL " where[i] (names[i] != "" ? " " names[i] : "") (texts[i] != "" ? ": " texts[i] : "")
      }
      for (i = 1; i <= shown && (i < 10 || shown == 10); i++) print lines[i]
      if (shown > 10) print "and " shown - 9 " more"
    }' "$1"
}

# Files that are downloaded for tests are stored outside of the repository.
cache=${CODEX_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/codex-exec-server}

# upstream VERSION prints the path of the program of a Codex CLI release, and downloads it if it is
# missing.
upstream() {
  (cd "$root/scripts/tools" && GOWORK=off go run ./fetchupstream -version "$1" -dir "$cache")
}

# shared NAME prints the path of a file in the directory ../shared, or fails. Only the maintainers'
# machines have this directory.
shared() {
  local path="$root/../shared/$1"
  [ -e "$path" ] || return 1
  (cd "$(dirname "$path")" && echo "$PWD/$(basename "$path")")
}

# serve LOG COMMAND... starts a server and sets url and server_pid. stop_server ends the server.
servers=()
serve() {
  local log=$1 tries=0
  shift
  : > "$log.url"
  "$@" > "$log.url" 2> "$log" &
  server_pid=$!
  servers+=("$server_pid")
  until grep -qE '^(wss?|http)://' "$log.url"; do
    kill -0 "$server_pid" 2>/dev/null || { cat "$log" >&2; fail "$1 did not start"; }
    tries=$((tries + 1))
    [ "$tries" -lt 200 ] || fail "$1 does not say where it listens"
    sleep 0.05
  done
  url=$(head -n 1 "$log.url")
}

stop_servers() {
  local pid
  for pid in "${servers[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  servers=()
}
