#!/bin/sh
# run.sh PROGRAM FOLDER [NAME=VALUE...]: runs the source with a client that sends 30 messages, each time that it is started. A source that is
# killed has lost what was in its memory. That the messages come again, as the kit demands, is what this client adds, as a relay
# would that keeps messages until it knows that they have arrived.
set -eu
program=$1
addresses=$2/addresses
shift 2
rm -f "$addresses"
python3 "$(dirname "$0")/send.py" "$addresses" 0 30 &
exec env "$@" "$program" --tcp 127.0.0.1:0 --addresses "$addresses" --max-message-bytes 2097152 --drain-seconds 1
