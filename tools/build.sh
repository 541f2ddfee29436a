#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# build.sh TOOL... puts each named tool at bin/tools/TOOL.
#
# A tool on the PATH that is new enough is linked there; otherwise the tool is
# built once from the module that pins it (tools/<family>/go.mod and go.sum) and
# built again only when that pin, the build options or the Go release change.
# CULPRIT_TOOLS=module skips the PATH, so that everyone runs the pinned version.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/bin/tools

# One line a tool: name, family (folder of its go.mod), package, build tags,
# oldest release on the PATH that will do ("-": none will), what a first build costs.
#
# The rules need Prometheus 2.42, the first with keep_firing_for, and their unit tests pass with its promtool.
# Alertmanager 0.25 is the oldest that was tried with deploy/alertmanager.
# Formatters and linters differ between releases, so only the pinned ones are used.
tools() {
  cat <<'TABLE'
prometheus     prometheus    github.com/prometheus/prometheus/cmd/prometheus       remove_all_sd,netgo  2.42.0  about 3 minutes
promtool       prometheus    github.com/prometheus/prometheus/cmd/promtool         remove_all_sd,netgo  2.42.0  about 2 minutes, 1 after prometheus
alertmanager   alertmanager  github.com/prometheus/alertmanager/cmd/alertmanager   netgo                0.25.0  about 90 seconds
amtool         alertmanager  github.com/prometheus/alertmanager/cmd/amtool         netgo                0.25.0  about 90 seconds
jsonnet        jsonnet       github.com/google/go-jsonnet/cmd/jsonnet              netgo                -       about 20 seconds
jsonnetfmt     jsonnet       github.com/google/go-jsonnet/cmd/jsonnetfmt           netgo                -       about 20 seconds
jsonnet-lint   jsonnet       github.com/google/go-jsonnet/cmd/jsonnet-lint         netgo                -       about 20 seconds
pint           pint          github.com/cloudflare/pint/cmd/pint                     netgo                -       about a minute
golangci-lint  lint          github.com/golangci/golangci-lint/v2/cmd/golangci-lint netgo               -       about 2 minutes
gofumpt        lint          mvdan.cc/gofumpt                                      netgo                -       a few seconds
govulncheck    vuln          golang.org/x/vuln/cmd/govulncheck                      netgo                -       a few seconds
helm           helm          helm.sh/helm/v3/cmd/helm                               netgo                -       about 3 minutes
etcd           kubernetes    go.etcd.io/etcd/server/v3                               netgo                -       about a minute
kube-apiserver kubernetes    k8s.io/kubernetes/cmd/kube-apiserver                    netgo                -       about 10 minutes
kyverno        kyverno       github.com/kyverno/kyverno/cmd/cli/kubectl-kyverno      netgo                -       about 10 minutes
victoria-metrics victoriametrics github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics netgo    -       about 2 minutes
vmalert        victoriametrics github.com/VictoriaMetrics/VictoriaMetrics/app/vmalert netgo               -       about a minute
thanos         thanos        github.com/thanos-io/thanos/cmd/thanos                  netgo,slicelabels    -       about 4 minutes
mimir          mimir         github.com/grafana/mimir/cmd/mimir                      netgo,stringlabels   -       about 5 minutes
TABLE
}

say() { printf 'tools: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# lookup TOOL sets family, package, tags, floor and cost.
lookup() {
  local name
  while read -r name family package tags floor cost; do
    [[ $name == "$1" ]] && return 0
  done < <(tools)
  die "unknown tool $1; known: $(tools | awk '{printf "%s ", $1}')"
}

# at_least FLOOR VERSION: VERSION is FLOOR or newer.
at_least() { [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

# on_path TOOL FLOOR prints where a new enough TOOL lies on the PATH, outside bin/tools.
on_path() {
  local candidate version
  while read -r candidate; do
    [[ $(readlink -f "$(dirname "$candidate")") == "$out" || $(dirname "$(readlink -f "$candidate")") == "$out" ]] && continue
    version=$("$candidate" --version 2>&1 | sed -n 's/.*version \([0-9][0-9.]*\).*/\1/p' | head -n 1) || continue
    if [[ -n $version ]] && at_least "$2" "$version"; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done < <(type -aP "$1" || true)
  return 1
}

# module_version MODULE_DIR PACKAGE prints the pinned module's path and version.
module_version() { (cd "$1" && go list -f '{{.Module.Path}} {{.Module.Version}}' "$2"); }

# release_name TOOL VERSION prints the release that a module version is: Prometheus
# tags its modules v0.3MM.P for release 3.MM.P.
release_name() {
  local v=${2#v}
  case $1 in
    prometheus | promtool) sed -E 's/^0\.([0-9])([0-9]+)\.([0-9]+)$/\1.\2.\3/; s/^([0-9]+)\.0([0-9])\./\1.\2./' <<<"$v" ;;
    *) printf '%s\n' "$v" ;;
  esac
}

# version_variable TOOL prints the variable that its release's own build sets: others ask the program for it.
version_variable() {
  case $1 in
    prometheus | promtool | alertmanager | amtool) echo github.com/prometheus/common/version.Version ;;
    kube-apiserver) echo k8s.io/component-base/version.gitVersion ;; # Helm compares it with what a chart needs.
  esac
}

build() {
  local tool=$1 family package tags floor cost dir stamp want found release path version variable
  lookup "$tool"
  dir=$root/tools/$family
  stamp=$out/.$tool.stamp

  # One lock a tool: a first build of kube-apiserver must not hold up a make that only wants Prometheus.
  exec 9>"$out/.$tool.lock"
  if command -v flock >/dev/null && ! flock --nonblock 9; then
    say "waiting for another build of $tool"
    flock 9
  fi

  if [[ $floor != - && ${CULPRIT_TOOLS:-} != module ]] && found=$(on_path "$tool" "$floor"); then
    if [[ $(readlink "$out/$tool" 2>/dev/null || true) != "$found" ]]; then
      say "$tool: using $found"
      rm -f "$stamp"
      ln -sfn "$found" "$out/$tool"
    fi
    return
  fi

  variable=$(version_variable "$tool")
  want=$({ cat "$dir/go.mod" "$dir/go.sum"; printf '%s %s\n' "$package" "$tags${variable:+ $variable}"; go version; } | sha256sum | cut -d' ' -f1)
  if [[ -x $out/$tool && ! -L $out/$tool && -f $stamp && $(<"$stamp") == "$want" ]]; then
    return
  fi

  read -r path version < <(module_version "$dir" "$package") || die "$tool: reading its module in tools/$family"
  release=$(release_name "$tool" "$version")
  say "building $tool $release from its module ($path $version), $cost the first time"
  local started=$SECONDS ldflags="-s -w"
  case $tool in
    kube-apiserver) ldflags+=" -X $variable=v$release" ;;
    *) ldflags+="${variable:+ -X $variable=$release}" ;;
  esac
  # Built beside its place and moved there, so that nobody runs half a file.
  (cd "$dir" && CGO_ENABLED=0 $lower go build -trimpath -tags "$tags" -ldflags "$ldflags" -o "$out/.$tool.new" "$package")
  rm -f "$stamp"
  mv -f "$out/.$tool.new" "$out/$tool"
  printf '%s\n' "$want" >"$stamp"
  say "$tool $release is ready after $((SECONDS - started)) s"
}

[[ $# -gt 0 ]] || die "usage: tools/build.sh TOOL...; known: $(tools | awk '{printf "%s ", $1}')"
command -v go >/dev/null || die "go is not on the PATH"

# The pins decide, not the caller's settings.
unset GOFLAGS GOOS GOARCH
export GOWORK=off GOTOOLCHAIN=${GOTOOLCHAIN:-local}
lower=
command -v nice >/dev/null && lower="nice -n 5"

mkdir -p "$out"
for tool in "$@"; do
  build "$tool"
done
