package headrace

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
)

var (
	// ErrTakenOver matches a SessionError: a newer session of the same instance took over. Give every running copy of a
	// connector an instance of its own.
	ErrTakenOver = errors.New("headrace: a newer session of the same instance took over")
	// ErrNotPermitted matches a SessionError: the token does not permit a stream, or a sink, or is not known.
	ErrNotPermitted = errors.New("headrace: not permitted")
	// ErrUnavailable matches a SessionError that another attempt may not meet. [Run] tries again by itself.
	ErrUnavailable = errors.New("headrace: the gateway is unavailable")
	// ErrTooLarge matches a MessageError: the message makes a frame above the gateway's limit.
	ErrTooLarge = errors.New("headrace: the message is too large")
)

// SessionError is how the gateway, or the connection to it, ended a session.
type SessionError struct {
	// Gateway is its address.
	Gateway string
	// Code is the gRPC status.
	Code codes.Code
	// Reason names the rule that was broken, such as "CREDIT_OVERRUN"; empty if the gateway named none.
	Reason string
	// Details has more for programs, by name: see ErrorReason in the protocol. Nil if there is nothing.
	Details map[string]string
	// Stream is the stream that was refused; empty if it concerns the session.
	Stream string
	// Message says what happened and what to do.
	Message string
}

// Error names the gateway, the cause and the status.
func (e *SessionError) Error() string {
	where := "gateway " + e.Gateway
	if e.Stream != "" {
		where += ": stream " + e.Stream
	}
	reason := e.Code.String()
	if e.Reason != "" {
		reason += ", " + e.Reason
	}
	message := e.Message
	if message == "" {
		message = "no reason given"
	}
	if errors.Is(e, ErrTakenOver) {
		message += "; give each running copy of a connector an instance of its own"
	}
	return fmt.Sprintf("%s: %s (%s)", where, message, reason)
}

// Is matches ErrTakenOver, ErrNotPermitted and ErrUnavailable.
func (e *SessionError) Is(target error) bool {
	switch target {
	case ErrTakenOver:
		return e.Reason == "TAKEN_OVER" || e.Reason == "" && e.Code == codes.Aborted
	case ErrNotPermitted:
		return e.Code == codes.PermissionDenied || e.Code == codes.Unauthenticated
	case ErrUnavailable:
		return e.transient()
	}
	return false
}

// ConfigError says that a connector or an option is invalid. Trying again would not help.
type ConfigError struct {
	// Field is what is invalid, such as "Source.Name".
	Field string
	// Problem says what is wrong with it, and what is allowed.
	Problem string
}

// Error names the field and what is wrong.
func (e *ConfigError) Error() string {
	return e.Field + ": " + e.Problem
}

// SourceError is an error that a function of a source returned.
type SourceError struct {
	// Stream is the stream that it concerns, or the source's name.
	Stream string
	// Function is the field of Source.
	Function string
	// Err is what it returned.
	Err error
}

// Error names the stream, the function and the cause.
func (e *SourceError) Error() string {
	return fmt.Sprintf("stream %s: Source.%s: %v", e.Stream, e.Function, e.Err)
}

// Unwrap returns the cause.
func (e *SourceError) Unwrap() error {
	return e.Err
}

// SinkError is an error that a method of a sink returned while no session could begin. [Run] tries again.
type SinkError struct {
	// Sink is its name.
	Sink string
	// Function is the method.
	Function string
	// Err is what it returned.
	Err error
}

// Error names the sink, the method and the cause.
func (e *SinkError) Error() string {
	return fmt.Sprintf("sink %s: %s: %v", e.Sink, e.Function, e.Err)
}

// Unwrap returns the cause.
func (e *SinkError) Unwrap() error {
	return e.Err
}

// MessageError says that a message cannot be sent.
type MessageError struct {
	// Stream is its stream.
	Stream string
	// Sequence is its sequence.
	Sequence uint64
	// Field is the field of Message that is invalid; empty if it is the message as a whole.
	Field string
	// Err says what is wrong, and what to do.
	Err error
}

// Error names the stream, the sequence, the field and what is wrong.
func (e *MessageError) Error() string {
	field := ""
	if e.Field != "" {
		field = ": " + e.Field
	}
	return fmt.Sprintf("stream %s: message %d%s: %v", e.Stream, e.Sequence, field, e.Err)
}

// Unwrap returns what is wrong.
func (e *MessageError) Unwrap() error {
	return e.Err
}

// PositionLostError is what Read yields, as a pointer, if the source no longer has what follows the position. The query then
// fails, or skips the loss if it is configured to; Read is then called without a position.
type PositionLostError struct {
	// Reason says what happened, for people.
	Reason string
	// Earliest is the first sequence that the source still has; nil if it does not know.
	Earliest *uint64
}

// Error returns the reason.
func (e *PositionLostError) Error() string {
	if e.Reason == "" {
		return "the source no longer has this position"
	}
	return e.Reason
}
