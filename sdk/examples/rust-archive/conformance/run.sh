#!/bin/sh
# run.sh PROGRAM FOLDER [NAME=VALUE...]: runs the sink with an archive in the folder, whose files are small.
set -eu
program=$1
archive=$2/archive
shift 2
exec env "$@" "$program" "$archive" --rotate-bytes 2000
