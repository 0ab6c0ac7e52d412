package headrace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	logFormatVariable = "HEADRACE_LOG_FORMAT"
	verboseVariable   = "HEADRACE_VERBOSE"

	formatConsole = "console"
	formatJSON    = "json"

	sdkLogger     = "headrace.sdk"
	programLogger = "connector"
)

// lineWriter writes each line whole, whoever writes at the same time.
type lineWriter struct {
	mutex sync.Mutex
	out   io.Writer
}

// lines is a handler that writes records as all parts of Headrace do: one line each, for people or as JSON in one schema.
type lines struct {
	out    *lineWriter
	format string
	least  slog.Level
	logger string
	attrs  []slog.Attr
	// prefix precedes the names of attributes: the groups that are open, each with a dot.
	prefix string
}

// linesOfEnvironment returns the handler that the environment asks for, nil if it asks for none, or what is not allowed.
func linesOfEnvironment(out io.Writer, logger string) (*lines, error) {
	format := os.Getenv(logFormatVariable)
	switch format {
	case "":
		return nil, nil
	case formatConsole, formatJSON:
	default:
		return nil, &ConfigError{logFormatVariable, fmt.Sprintf("%q is not %s or %s", format, formatConsole, formatJSON)}
	}
	least := slog.LevelWarn
	if isVerbose() {
		least = slog.LevelInfo
	}
	return &lines{out: &lineWriter{out: out}, format: format, least: least, logger: logger}, nil
}

// isVerbose says whether HEADRACE_VERBOSE asks for more than problems.
func isVerbose() bool {
	value := strings.ToLower(strings.TrimSpace(os.Getenv(verboseVariable)))
	return !slices.Contains([]string{"", "0", "false", "no", "off"}, value)
}

// configureProgram sends what the program logs to the same lines, unless it has configured slog itself.
func configureProgram() {
	if fmt.Sprintf("%T", slog.Default().Handler()) != "*slog.defaultHandler" {
		return
	}
	if handler, err := linesOfEnvironment(os.Stderr, programLogger); err == nil && handler != nil {
		slog.SetDefault(slog.New(handler))
	}
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool {
	return level >= l.least
}

func (l *lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	more := *l
	more.attrs = slices.Concat(l.attrs, l.flat(l.prefix, attrs))
	return &more
}

func (l *lines) WithGroup(name string) slog.Handler {
	if name == "" {
		return l
	}
	more := *l
	more.prefix += name + "."
	return &more
}

func (l *lines) Handle(_ context.Context, record slog.Record) error {
	var own []slog.Attr
	record.Attrs(func(attr slog.Attr) bool {
		own = append(own, attr)
		return true
	})
	fields := slices.Concat(l.attrs, l.flat(l.prefix, own))
	at := cmp.Or(record.Time, time.Now()).UTC()
	var line []byte
	if l.format == formatJSON {
		line = l.jsonLine(at, record, fields)
	} else {
		line = consoleLine(at, record, fields)
	}
	l.out.mutex.Lock()
	defer l.out.mutex.Unlock()
	_, err := l.out.out.Write(line)
	return err
}

// flat returns attributes without groups: the name of an attribute begins with the name of its group.
func (l *lines) flat(prefix string, attrs []slog.Attr) []slog.Attr {
	var all []slog.Attr
	for _, attr := range attrs {
		value := attr.Value.Resolve()
		switch {
		case attr.Equal(slog.Attr{}):
		case value.Kind() != slog.KindGroup:
			all = append(all, slog.Attr{Key: prefix + attr.Key, Value: value})
		case attr.Key == "":
			all = append(all, l.flat(prefix, value.Group())...)
		default:
			all = append(all, l.flat(prefix+attr.Key+".", value.Group())...)
		}
	}
	return all
}

// jsonLine returns a line with the four fields that every line has, and then the attributes of the record. Of two fields with the
// same name, it contains the last one.
func (l *lines) jsonLine(at time.Time, record slog.Record, fields []slog.Attr) []byte {
	head := []slog.Attr{
		slog.String("timestamp", at.Format("2006-01-02T15:04:05.000000Z")),
		slog.String("level", levelName(record.Level)),
		slog.String("logger", l.logger),
		slog.String("event", record.Message),
	}
	line := bytes.NewBufferString("{")
	for index, field := range slices.Concat(head, fields) {
		if index >= len(head) && isReplaced(fields, index-len(head), head) {
			continue
		}
		if index > 0 {
			line.WriteString(", ")
		}
		line.Write(jsonOf(field.Key))
		line.WriteString(": ")
		line.Write(jsonOf(plain(field.Value)))
	}
	line.WriteString("}\n")
	return line.Bytes()
}

// isReplaced says whether a later field, or one of the head, has the name of a field.
func isReplaced(fields []slog.Attr, index int, head []slog.Attr) bool {
	same := func(other slog.Attr) bool { return other.Key == fields[index].Key }
	return slices.ContainsFunc(fields[index+1:], same) || slices.ContainsFunc(head, same)
}

// consoleLine returns a line for people, such as `2026-01-31T12:00:00.250Z WARNING: session lost error="no route"`.
func consoleLine(at time.Time, record slog.Record, fields []slog.Attr) []byte {
	line := bytes.NewBufferString(at.Format("2006-01-02T15:04:05.000Z"))
	fmt.Fprintf(line, " %s: %s", strings.ToUpper(levelName(record.Level)), printable(record.Message))
	for _, field := range fields {
		text := fmt.Sprint(plain(field.Value))
		if text == "" || strings.ContainsAny(text, " \t\"'=") || printable(text) != text {
			text = strconv.Quote(text)
		}
		fmt.Fprintf(line, " %s=%s", field.Key, text)
	}
	line.WriteByte('\n')
	return line.Bytes()
}

// printable returns a text in one line, without what controls a terminal.
func printable(text string) string {
	quoted := strconv.Quote(text)
	if strings.Contains(quoted, `\`) {
		return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	}
	return text
}

// plain returns the value of a field as JSON and people show it: errors and durations are texts.
func plain(value slog.Value) any {
	switch found := value.Any().(type) {
	case error:
		return found.Error()
	case time.Duration:
		return found.String()
	case fmt.Stringer:
		return found.String()
	default:
		return found
	}
}

// jsonOf returns a value as JSON; as its text, if it is none.
func jsonOf(value any) []byte {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return jsonOf(fmt.Sprint(value))
	}
	return bytes.TrimSpace(line.Bytes())
}

func levelName(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "error"
	case level >= slog.LevelWarn:
		return "warning"
	case level >= slog.LevelInfo:
		return "info"
	default:
		return "debug"
	}
}
