#!/usr/bin/env bash
# Builds the web page into internal/control/web/dist, where Go embeds it.
#
#	scripts/web.sh          build the page, if npm is here
#	scripts/web.sh test     also check types and run the tests of its parts
#
# Without npm, an up-to-date Node.js or the packages, it says so and succeeds: Go then embeds a page that says the same.
# A mistake in the page fails.
set -euo pipefail
cd "$(dirname "$0")/../web"

if ! command -v npm >/dev/null; then
	echo "web: npm is not here; weir is built without its page" >&2
	exit 0
fi
if ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'; then
	echo "web: the page needs Node.js 20.19 or newer, here is $(node --version); weir is built without its page" >&2
	exit 0
fi
if [ ! -d node_modules ] || [ package-lock.json -nt node_modules ]; then
	# Not npm ci: it refuses a lock file that has the native parts of one platform only.
	if ! npm install --no-save --no-audit --no-fund; then
		echo "web: npm did not install what the page is built with; weir is built without its page" >&2
		exit 0
	fi
	touch node_modules
fi
if [ "${1:-}" = test ]; then
	npm test --silent
fi
dist=../internal/control/web/dist
find "$dist" -mindepth 1 ! -name .keep -delete
npm run build --silent
