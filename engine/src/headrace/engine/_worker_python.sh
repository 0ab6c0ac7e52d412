#!/bin/sh
# The Python of Spark's workers: HEADRACE_WORKER_PYTHON, with the PySpark that is installed for it.
# Spark puts archives of the same PySpark before that one, which hold no byte code: each process would compile them anew.
set -f
IFS=:
path=
for entry in $PYTHONPATH; do
  case $entry in
    */site-packages/pyspark/python/lib/*.zip | */site-packages/pyspark/jars/*.jar) ;;
    *) path=$path${path:+:}$entry ;;
  esac
done
PYTHONPATH=$path exec "$HEADRACE_WORKER_PYTHON" "$@"
