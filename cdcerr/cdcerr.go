package cdcerr

import (
	"errors"
	"fmt"
	"strings"
)

// Class is what a changefeed does about an error.
type Class uint8

// The classes, mildest first.
const (
	Retry        Class = iota // try again with backoff
	Warn                      // go on, but show it
	Terminal                  // the changefeed fails; an operator must act
	CaptureFatal              // the capture gives up its spans and starts anew
)

var classNames = [...]string{"retry", "warn", "terminal", "capture-fatal"}

// String is the word that docs and the API use.
func (c Class) String() string { return classNames[c] }

// Code is one row of the table.
type Code struct {
	ID      string // "CDC:Err…"
	Meaning string // what is wrong, one clause
	Remedy  string // what the operator does
	Class   Class
}

// Error is an error with a code. Its text is "[code] detail: cause".
type Error struct {
	Code   *Code
	Detail string
	cause  error
}

// New makes an error of this code; the detail names the key, the value and the reason.
func (c *Code) New(format string, args ...any) error {
	return &Error{Code: c, Detail: fmt.Sprintf(format, args...)}
}

// Wrap gives cause this code, unless it already carries one: the first code,
// attached where the error entered, stays.
func (c *Code) Wrap(cause error, format string, args ...any) error {
	detail := fmt.Sprintf(format, args...)
	if cause == nil {
		return nil
	}
	if Of(cause) != nil {
		return fmt.Errorf("%s: %w", detail, cause)
	}
	return &Error{Code: c, Detail: detail, cause: cause}
}

// Is tells whether err carries this code.
func (c *Code) Is(err error) bool { return err != nil && Of(err) == c }

// Error is the text with the code in front.
func (e *Error) Error() string {
	s := "[" + e.Code.ID + "] " + e.Detail
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.cause }

// Of is the code of err, nil where it has none.
func Of(err error) *Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return nil
}

// Detail is the text of err without its code, wherever in the text that stands.
func Detail(err error) string {
	c := Of(err)
	if c == nil {
		return err.Error()
	}
	return strings.Replace(err.Error(), "["+c.ID+"] ", "", 1)
}

// Explain is the text for a person who has to act: the error, what its code
// means, and the remedy.
func Explain(err error) string {
	c := Of(err)
	if c == nil {
		return err.Error()
	}
	return fmt.Sprintf("%v\n  meaning: %s\n  remedy:  %s", err, c.Meaning, c.Remedy)
}

// Fate is the class of err; an error without a code is retried.
func Fate(err error) Class {
	if c := Of(err); c != nil {
		return c.Class
	}
	return Retry
}

// Local tells whether an error of this code may be of one capture alone: it does not reach
// what others reach, or its disk fails. Who is not named is the same for all: what does not
// fit downstream, or cannot be decoded, does so nowhere.
func (c *Code) Local() bool {
	switch c {
	case PDUnreachable, EventFeed, RegionLookup, SnapshotRead, LockResolve, MetaUnreachable,
		DiskFull, SorterIO, MySQLConnection, MySQLAccessDenied,
		StorageAPI, StorageDenied, StorageGone, StorageFull, RedoElsewhere:
		return true
	}
	return false
}

// Find is the code of this ID, nil where there is none.
func Find(id string) *Code {
	for _, c := range All() {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// Bug reports a broken belief: something that no input from outside can cause.
// It fails one changefeed, never the process (P8).
func Bug(format string, args ...any) error { return Unexpected.New(format, args...) }
