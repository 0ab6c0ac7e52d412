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
# The first one prints each of its steps. Arguments are joined by colons here.
case ${HEADRACE_QUIET:-}$* in
  1*pyspark.sql.streaming.transform_with_state_driver_worker*) exec >/dev/null ;;
  1-m:pyspark.daemon:*) shift 2; set -- -m headrace.engine.spark.quiet_daemon "$@" ;;
esac
# A process that is to connect to Spark does so at once: Spark waits for it for 10 s only.
if [ -n "$PYTHON_WORKER_FACTORY_SOCK_PATH" ] && [ "$1" = -m ]; then
  set -- "${0%/*}/connect_first.py" "$@"
fi
PYTHONPATH=$path exec "$HEADRACE_WORKER_PYTHON" "$@"
