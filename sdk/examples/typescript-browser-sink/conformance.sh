# Becomes the connector. The arguments are a folder, and for TLS, an authority, a certificate and its key.
here=$(dirname "$0")
export HEADRACE_TLS_CA="$2" HEADRACE_TLS_CERT="$3" HEADRACE_TLS_KEY="$4"
exec node "$here/dist/src/main.js" --port 0 --folder "$1/ring"
