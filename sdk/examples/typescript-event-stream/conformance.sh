# Starts the server of demo/feed.ts, and becomes the connector. The arguments are a folder with a file `events`, and for TLS,
# an authority, a certificate and its key.
here=$(dirname "$0")
export HEADRACE_TLS_CA="$2" HEADRACE_TLS_CERT="$3" HEADRACE_TLS_KEY="$4"
rm -f "$1/url"
node "$here/dist/demo/feed.js" "$1/events" 0 > "$1/url" &
until [ -s "$1/url" ]; do sleep 0.02; done
exec node "$here/dist/src/main.js" --url "$(cat "$1/url")" --oversized "$1/oversized"
