// Command go-sqlite-sink writes what Spark sends to it into a table of a SQLite database, exactly once. README.md tells how.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/headrace/headrace/sdk/go/headrace"
)

func main() {
	name := flag.String("sink", "sqlite", "`name` of the sink in Spark")
	table := flag.String("table", "messages", "`table` to write to; it is created if there is none")
	onlyJSON := flag.Bool("json", false, "refuse messages whose value is not JSON")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go-sqlite-sink [OPTIONS] DATABASE")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	db, err := openDatabase(context.Background(), flag.Arg(0), *table)
	if err != nil {
		fmt.Fprintf(os.Stderr, "go-sqlite-sink: %s: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
	headrace.Main(db.sink(*name, *onlyJSON), nil)
}
