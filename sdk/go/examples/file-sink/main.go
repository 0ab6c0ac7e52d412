// Command file-sink writes rows to files, exactly once: each micro-batch becomes a folder with a file for each Spark task.
package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/headrace/headrace/sdk/go/headrace"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: file-sink FOLDER")
		os.Exit(2)
	}
	folder, err := openFolder(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "file-sink:", err)
		os.Exit(2)
	}
	headrace.Main(&headrace.Sink{
		Name:     "files",
		TwoPhase: folder,
		Close:    func() error { slog.Info("the sink is closed"); return nil },
	}, nil)
}
