#!/usr/bin/env bash
# Writes the notices of third parties: the licence texts of Go itself, of every Go module that is linked into weir,
# and, if the page is built, of every npm package that the page may contain.
#
#   notices.sh FILE
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?file}

# texts FOLDER prints the licence and notice files of a module or a package, and fails if it has none.
texts() {
    local file found=1
    while IFS= read -r file; do
        printf '\n--- %s\n\n' "$(basename "$file")"
        tr -d '\r' <"$file"
        found=0
    done < <(find "$1" -maxdepth 1 -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'notice*' \) ! -name '*.go' | LC_ALL=C sort)
    return $found
}

# mit prints the licence that most packages without a file of their own have.
mit() {
    cat <<'TEXT'

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
TEXT
}

title() { printf '\n%s\n%s\n%s\n' "$(printf '=%.0s' {1..80})" "$1" "$(printf '=%.0s' {1..80})"; }

{
    echo "Weir contains the following software of third parties."
    title "Go standard library $(go env GOVERSION)"
    texts "$(go env GOROOT)" || { echo "notices: Go has no licence file in $(go env GOROOT)" >&2; exit 1; }
    while read -r path version folder; do
        title "Go module $path $version"
        texts "$folder" || { echo "notices: $path $version has no licence file" >&2; exit 1; }
    done < <(CGO_ENABLED=0 GOOS=linux go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/weir | LC_ALL=C sort -u)
    if [ -e internal/control/web/dist/index.html ]; then
        [ -e web/node_modules/.package-lock.json ] || { echo "notices: the page is built and web/node_modules is not here" >&2; exit 1; }
        PATH="$PWD/web/.node/bin:$PATH" node -e '
            const lock = require("./web/package-lock.json").packages;
            for (const [folder, about] of Object.entries(lock).sort(([a], [b]) => (a < b ? -1 : 1)))
                if (folder && !about.dev && !about.optional)
                    console.log([folder.replace(/^.*node_modules\//, ""), about.version, "web/" + folder, about.license].join("\t"));' |
            while IFS=$'\t' read -r name version folder licence; do
                case $name in @types/*) continue ;; esac # types are gone when the page is built
                title "npm package $name $version ($licence)"
                texts "$folder" || {
                    PATH="$PWD/web/.node/bin:$PATH" node -e '
                        const about = require("./" + process.argv[1] + "/package.json");
                        const author = typeof about.author === "object" ? about.author.name : about.author;
                        console.log(`\nThe package has no file with its licence, which is ${about.license}.`);
                        console.log(`Copyright: ${author ?? "the authors"}. Source: ${about.homepage ?? about.name}`);' "$folder"
                    [ "$licence" != MIT ] || mit
                }
            done
    fi
} >"$out"
