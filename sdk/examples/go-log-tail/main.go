// Command go-log-tail streams the lines of a folder of log files into a Headrace gateway, through their rotation. README.md
// tells how.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/headrace/headrace/sdk/go/headrace"
)

func main() {
	l := &logs{}
	name := flag.String("source", "logs", "`name` of the source; its streams are NAME/LOG")
	flag.StringVar(&l.pattern, "pattern", "*.log", "`pattern` of the names of files that are being written, without their rotated copies")
	flag.IntVar(&l.limit, "max-line", 1<<20, "`bytes` of the longest line that is sent; longer ones are logged and left out")
	flag.DurationVar(&l.interval, "interval", 200*time.Millisecond, "how often to look for more")
	flag.Parse()
	l.folder = flag.Arg(0)
	if err := check(l); err != nil {
		fmt.Fprintln(os.Stderr, "go-log-tail:", err)
		fmt.Fprintln(os.Stderr, "usage: go-log-tail [OPTIONS] FOLDER")
		flag.PrintDefaults()
		os.Exit(2)
	}
	health := &headrace.Health{}
	l.leftOut = func(log string, number uint64, err error) {
		slog.Warn("a line was left out", "log", log, "line", number, "error", err)
		health.Survived(*name+"/"+log, fmt.Errorf("line %d was left out: %w", number, err))
	}
	headrace.Main(l.source(*name), &headrace.Options{Health: health})
}

// check says what is wrong with the command line.
func check(l *logs) error {
	if flag.NArg() != 1 {
		return errors.New("name one folder")
	}
	if found, err := os.Stat(l.folder); err != nil {
		return err
	} else if !found.IsDir() {
		return fmt.Errorf("%s is not a folder", l.folder)
	}
	if _, err := filepath.Match(l.pattern, ""); err != nil {
		return fmt.Errorf("--pattern %s: %w", l.pattern, err)
	}
	if l.limit < 1 || l.interval <= 0 {
		return errors.New("--max-line and --interval must be above 0")
	}
	return nil
}
