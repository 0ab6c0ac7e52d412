package headrace

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/sdk/go/internal/vectors"
)

func TestAFileContainsOneTokenOrAnErrorNamesWhatIsWrong(t *testing.T) {
	var found struct {
		Contents struct {
			Cases []struct {
				Name, Hex, Token, Problem string
				Times                     int
				TokenTimes                int `json:"token_times"`
			}
		}
		Paths struct {
			Cases []struct{ Name, Is, Path, Problem string }
		}
	}
	vectors.Read(t, "tokens.json", &found)
	if len(found.Contents.Cases) == 0 || len(found.Paths.Cases) == 0 {
		t.Fatal("no cases")
	}
	for _, test := range found.Contents.Cases {
		t.Run(test.Name, func(t *testing.T) {
			content, err := hex.DecodeString(strings.Repeat(test.Hex, max(test.Times, 1)))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			token, err := readToken(path)
			if test.Problem == "" {
				if want := strings.Repeat(test.Token, max(test.TokenTimes, 1)); token != want || err != nil {
					t.Errorf("%q, %v", token, err)
				}
			} else if err == nil || err.Error() != path+" "+test.Problem {
				t.Errorf("%q, %v", token, err)
			}
		})
	}
	for _, test := range found.Paths.Cases {
		t.Run(test.Name, func(t *testing.T) {
			path := test.Path
			if path == "" {
				path = filepath.Join(t.TempDir(), test.Is)
			}
			var err error
			switch test.Is {
			case "folder":
				err = os.Mkdir(path, 0o700)
			case "socket":
				err = syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			if token, err := readToken(path); err == nil || err.Error() != path+": "+test.Problem {
				t.Errorf("%q, %v", token, err)
			}
		})
	}
}

func TestAFileDescriptorIsReadOnce(t *testing.T) {
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reads.Close() }()
	if _, err := writes.WriteString("secret\n"); err != nil {
		t.Fatal(err)
	}
	if err := writes.Close(); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/dev/fd/%d", reads.Fd())
	for range 2 {
		if token, err := readToken(path); token != "secret" || err != nil {
			t.Errorf("%q, %v", token, err)
		}
	}
	again, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if _, err := writes.WriteString("another\n"); err != nil {
		t.Fatal(err)
	}
	if err := writes.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Dup3(int(again.Fd()), int(reads.Fd()), syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if token, err := readToken(path); token != "another" || err != nil {
		t.Errorf("where the number is used again: %q, %v", token, err)
	}
}

func TestADescriptorThatIsASocketIsRefused(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = syscall.Close(pair[0]), syscall.Close(pair[1]) }()
	path := fmt.Sprintf("/dev/fd/%d", pair[0])
	if token, err := readToken(path); err == nil || err.Error() != path+": it is a socket, and no file" {
		t.Errorf("%q, %v", token, err)
	}
}

func TestAFIFOIsWaitedForWithAnEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	before := pipeTimeout
	t.Cleanup(func() { pipeTimeout = before })
	pipeTimeout = 0
	if token, err := readToken(path); err == nil || !strings.Contains(err.Error(), "nobody has written a token") {
		t.Errorf("%q, %v", token, err)
	}
	pipeTimeout = 10 * time.Minute
	done := make(chan error, 1)
	go func() { done <- os.WriteFile(path, []byte("late\n"), 0o600) }()
	if token, err := readToken(path); token != "late" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAFileThatContainsNoTokenChangesNothingAndIsNamedOnce(t *testing.T) {
	var logs bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logs, nil))
	path := filepath.Join(t.TempDir(), "token")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	file, err := openTokenFile(tokenFileOption, path, log)
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{"": "is empty", "a\nb": "contains 2 lines"} {
		logs.Reset()
		write(content)
		if got := [2]string{file.refresh(log), file.refresh(log)}; got != [2]string{"first", "first"} {
			t.Errorf("%q", got)
		}
		if strings.Count(logs.String(), want) != 1 {
			t.Errorf("%s is logged as %s", want, logs.String())
		}
	}
	write("second")
	if got := file.refresh(log); got != "second" {
		t.Errorf("%q", got)
	}
}
