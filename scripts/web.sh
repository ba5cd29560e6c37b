#!/usr/bin/env bash
# Builds the web page into internal/control/web/dist, where Go embeds it.
#
#	scripts/web.sh          build the page, if npm is installed
#	scripts/web.sh check    check types and run unit tests, and build nothing
#	scripts/web.sh test     both
#
# Without npm, or if npm cannot install the packages, it warns and succeeds: Go then embeds a placeholder page. An
# error in the page's sources fails.
#
# The page needs Node.js 20.19. Where the machine has an older one, as Debian 12 does, a newer one comes from npm
# into web/.node; the browser tests use it too.
set -euo pipefail
cd "$(dirname "$0")/../web"

node_version=22.23.3

without() {
	echo "web: $*; weir is built without its page" >&2
	exit 0
}

new_enough() {
	"$1" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null
}

command -v npm >/dev/null || without "npm is not installed"
if ! new_enough node; then
	if ! new_enough .node/bin/node; then
		case "$(uname -m)" in
		x86_64) platform=linux-x64 ;;
		aarch64) platform=linux-arm64 ;;
		*) without "the page needs Node.js 20.19 or newer, here is $(node --version)" ;;
		esac
		rm -rf .node
		npm install --prefix .node --no-save --no-package-lock "node-$platform@$node_version" ||
			without "the page needs Node.js 20.19 or newer, here is $(node --version), and npm did not install a newer one"
		ln -s "node_modules/node-$platform/bin" .node/bin
	fi
	export PATH="$PWD/.node/bin:$PATH"
fi
# npm writes node_modules/.package-lock.json when it has installed everything.
if [ ! package-lock.json -ot node_modules/.package-lock.json ]; then
	npm ci || without "npm could not install the page's dependencies"
fi
if [ "${1:-}" = check ]; then
	npm run check --silent
fi
if [ "${1:-}" = check ] || [ "${1:-}" = test ]; then
	npm test --silent
fi
if [ "${1:-}" != check ]; then
	dist=../internal/control/web/dist
	find "$dist" -mindepth 1 ! -name .keep -delete
	npm run build --silent
fi
