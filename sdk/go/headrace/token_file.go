package headrace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"sync"
	"syscall"
	"time"
)

const (
	tokenFileVariable = "HEADRACE_TOKEN_FILE"
	tokenFileOption   = "Options.TokenFile"

	// maxTokenBytes is the size of the largest file with a token.
	maxTokenBytes = 4096
)

// pipeTimeout is how long to wait until whoever writes to a pipe has written the token and closed it.
var pipeTimeout = 30 * time.Second

var (
	descriptorPath = regexp.MustCompile(`^/(?:dev|proc/self)/fd/\d+$|^/dev/stdin$`)
	tokenPattern   = regexp.MustCompile(`^[ -~]+$`)
	lineEnd        = regexp.MustCompile(`\r\n|\r|\n`)

	errFolder = errors.New("it is a folder, and no file")
	errSocket = errors.New("it is a socket, and no file")
	errDevice = errors.New("it is a device, and no file")
	errPipe   = errors.New("nobody has written a token to it and closed it in time")
)

// identity tells a pipe from all others. Its path does not: the number of a descriptor may be used again.
type identity struct {
	path          string
	device, inode uint64
}

// readOnce is what pipes contained: they can be read once only.
var readOnce = struct {
	sync.Mutex
	contents map[identity][]byte
}{contents: map[identity][]byte{}}

// tokenFile is a file that contains a token, and is read again before each session.
type tokenFile struct {
	// field names the option or the variable that names the file.
	field, path string
	// token is the last one that was read.
	token string
	// problem is why the file was not used when it was last read; empty if it was.
	problem string
}

// openTokenFile reads a file for the first time.
func openTokenFile(field, path string, log *slog.Logger) (*tokenFile, error) {
	token, err := readToken(path)
	if err != nil {
		return nil, &ConfigError{field, err.Error()}
	}
	if !descriptorPath.MatchString(path) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			log.Warn("every user of this machine can read the token: chmod o= " + path)
		}
	}
	return &tokenFile{field: field, path: path, token: token}, nil
}

// refresh reads the file again. While it contains no token, the last one stays in use, and each problem is logged once.
func (f *tokenFile) refresh(log *slog.Logger) string {
	token, err := readToken(f.path)
	if err == nil {
		f.token, f.problem = token, ""
	} else if err.Error() != f.problem {
		f.problem = err.Error()
		log.Warn("the token that the file contained before stays in use", "error", err)
	}
	return f.token
}

// readToken returns the token that a file contains, without the white space around it. Errors name the file, never its contents.
func readToken(path string) (string, error) {
	content, err := tokenContent(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	token := bytes.Trim(content, " \t\r\n")
	switch {
	case len(content) > maxTokenBytes:
		return "", fmt.Errorf("%s is too large for a token: more than 4,096 bytes", path)
	case len(token) == 0:
		return "", fmt.Errorf("%s is empty: write the token into it, and nothing else", path)
	case !tokenPattern.Match(token):
		what := "bytes that no token contains"
		if ends := lineEnd.FindAll(token, -1); len(ends) > 0 {
			what = fmt.Sprintf("%d lines", len(ends)+1)
		}
		return "", fmt.Errorf("%s contains %s: write one token into it, and nothing else", path, what)
	}
	return string(token), nil
}

// tokenContent returns up to one byte more than a file with a token may contain.
func tokenContent(path string) ([]byte, error) {
	readOnce.Lock()
	defer readOnce.Unlock()
	// A socket cannot be opened, not even by the number of its descriptor.
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		return nil, errSocket
	}
	// A FIFO that nobody writes to must not block the call.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, reasonOf(path, err)
	}
	defer func() { _ = file.Close() }() // It is only read.
	info, err := file.Stat()
	if err != nil {
		return nil, reasonOf(path, err)
	}
	switch {
	case info.IsDir():
		return nil, errFolder
	case info.Mode().IsRegular():
		content, err := io.ReadAll(io.LimitReader(file, maxTokenBytes+1))
		return content, reasonOf(path, err)
	case info.Mode()&fs.ModeNamedPipe == 0:
		return nil, errDevice
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errDevice
	}
	pipe := identity{path, uint64(status.Dev), uint64(status.Ino)}
	if known, ok := readOnce.contents[pipe]; ok {
		return known, nil
	}
	content, err := pipeContent(file, path)
	if err != nil {
		return nil, reasonOf(path, err)
	}
	readOnce.contents[pipe] = content
	return content, nil
}

// pipeContent reads a pipe until it is closed by whoever writes to it.
func pipeContent(file *os.File, path string) ([]byte, error) {
	deadline := time.Now().Add(pipeTimeout)
	if err := file.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	for {
		content, err := io.ReadAll(io.LimitReader(file, maxTokenBytes+1))
		// Reading a FIFO that nobody has opened yet ends at once.
		if err != nil || len(content) > 0 || descriptorPath.MatchString(path) {
			return content, err
		}
		if !time.Now().Before(deadline) {
			return nil, os.ErrDeadlineExceeded
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// reasonOf says why a file cannot be read.
func reasonOf(path string, err error) error {
	var inner *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errPipe
	case errors.Is(err, fs.ErrNotExist) && descriptorPath.MatchString(path):
		return errors.New("this process has no such file descriptor")
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such file")
	case errors.As(err, &inner):
		return inner.Err
	}
	return err
}
