// Package vectors reads the test vectors of the protocol, which all SDKs share. Only tests use it.
package vectors

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Read reads a file of conformance/vectors into a value.
//
// The module alone does not contain the vectors: the test is then skipped, and fails with CI=true.
func Read(t *testing.T, name string, into any) {
	t.Helper()
	_, source, _, _ := runtime.Caller(0)
	folder := filepath.Join(filepath.Dir(source), "..", "..", "..", "..", "conformance", "vectors")
	text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Skip("conformance/vectors is not part of the module: run the tests in a checkout of the repository")
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
